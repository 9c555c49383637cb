/* SPDX-License-Identifier: BSD-2-Clause */
/* See http.h. */
#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pn_memwatch.h"

#define BODY_MAX_BYTES     4096
#define CONNECTIONS_MAX    1100 /* PLAIN_SLOTS_MAX running, the probes, and some that queue */
#define IDLE_LIMIT_S       30
#define THREAD_STACK_BYTES (256u << 10)

struct http {
	struct MHD_Daemon *daemon;
	struct engine *engine;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	unsigned n_running; /* requests between their first line and their last byte */
};

struct body {
	size_t bytes;
	bool too_long;
	char text[BODY_MAX_BYTES];
};

static enum MHD_Result answer(struct MHD_Connection *conn, unsigned status, json_t *json,
			      uint32_t retry_after_ms)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	struct MHD_Response *response;
	enum MHD_Result r;
	char seconds[16];

	json_decref(json);
	if (!text)
		return MHD_NO;
	response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, "Content-Type", "application/json");
	if (retry_after_ms) {
		/* Retry-After is in whole seconds: rounded up, a client must not be early. */
		snprintf(seconds, sizeof(seconds), "%u", (retry_after_ms + 999) / 1000);
		MHD_add_response_header(response, "Retry-After", seconds);
	}
	r = MHD_queue_response(conn, status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result answer_error(struct MHD_Connection *conn, unsigned status, const char *why)
{
	return answer(conn, status, json_pack("{s:s}", "error", why), 0);
}

static const char *level_name(int level)
{
	return pn_mem_level_name((pn_mem_level)level);
}

static enum MHD_Result answer_shed(struct MHD_Connection *conn, const struct refusal *why)
{
	return answer(conn, MHD_HTTP_SERVICE_UNAVAILABLE,
		      json_pack("{s:b, s:s, s:s, s:i, s:s}", "admitted", 0, "verdict", "reject",
				"reason", why->reason, "retry_after_ms", (int)why->retry_after_ms,
				"level_name", level_name(why->level)),
		      why->retry_after_ms);
}

/* False: the body is not a request that this engine can serve. */
static bool request_parse(const struct body *body, int ctx_tokens, struct completion_request *ret)
{
	json_t *json = json_loadb(body->text, body->bytes, JSON_REJECT_DUPLICATES, NULL);
	json_int_t prompt_tokens = 0, max_tokens = 0;
	bool valid = json && !json_unpack(json, "{s:I, s:I}", "prompt_tokens", &prompt_tokens,
					  "max_tokens", &max_tokens);

	json_decref(json);
	if (!valid || prompt_tokens < 1 || max_tokens < 1 || prompt_tokens > ctx_tokens ||
	    max_tokens > ctx_tokens - prompt_tokens)
		return false;
	*ret = (struct completion_request){ (int)prompt_tokens, (int)max_tokens };
	return true;
}

static enum MHD_Result completions(struct engine *engine, struct MHD_Connection *conn,
				   const struct body *body)
{
	struct completion_request request;
	struct completion done;
	struct refusal why;

	if (body->too_long)
		return answer_error(conn, MHD_HTTP_CONTENT_TOO_LARGE, "the body is too long");
	if (!request_parse(body, engine->ctx_tokens, &request))
		return answer_error(conn, MHD_HTTP_BAD_REQUEST,
				    "want {\"prompt_tokens\": N, \"max_tokens\": M}, both at "
				    "least 1, their sum within the context");
	if (!engine->loaded) {
		why = (struct refusal){ 1000, PN_MEM_LEVEL_OK, "the model is being loaded" };
		engine->refused++;
		return answer_shed(conn, &why);
	}
	switch (completion_run(engine, &request, &done, &why)) {
	case 0:
		engine->finished++;
		engine->shortened += done.capped;
		return answer(conn, MHD_HTTP_OK,
			      json_pack("{s:b, s:s, s:i, s:i, s:i, s:s, s:s}", "admitted", 1,
					"verdict", done.capped ? "cap" : "admit", "fit_tokens",
					done.prompt_tokens, "generated_tokens",
					done.generated_tokens, "kv_rows", done.kv_rows, "kv",
					engine->weights.kv_q4 ? "q4_0" : "f32", "level_name",
					level_name(done.level)),
			      0);
	case -EAGAIN:
		engine->refused++;
		return answer_shed(conn, &why);
	default:
		engine->failed++;
		return answer_error(conn, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory");
	}
}

static enum MHD_Result readyz(struct engine *engine, struct MHD_Connection *conn)
{
	pn_mem_level level = guard_level(&engine->guard);
	bool ready = engine->loaded && !engine->stopping && level < PN_MEM_LEVEL_CRITICAL;

	return answer(conn, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
		      json_pack("{s:b, s:s}", "ready", ready, "level_name", level_name(level)),
		      ready ? 0 : 1000);
}

static enum MHD_Result route(struct engine *engine, struct MHD_Connection *conn, const char *url,
			     const char *method, const struct body *body)
{
	bool is_get = !strcmp(method, "GET"), is_post = !strcmp(method, "POST");

	if (is_get && !strcmp(url, "/healthz"))
		return answer(conn, MHD_HTTP_OK, json_pack("{s:b}", "alive", 1), 0);
	if (is_get && !strcmp(url, "/readyz"))
		return readyz(engine, conn);
	if (is_post && !strcmp(url, "/v1/completions"))
		return completions(engine, conn, body);
	return answer_error(conn, MHD_HTTP_NOT_FOUND, "no such resource");
}

/* libmicrohttpd calls this once at a request's head, then for its body, then once at its end. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *conn, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_bytes, void **state)
{
	struct http *http = arg;
	struct body *body = *state;

	if (!body) {
		*state = calloc(1, sizeof(*body));
		if (!*state)
			return MHD_NO;
		pthread_mutex_lock(&http->lock);
		http->n_running++;
		pthread_mutex_unlock(&http->lock);
		return MHD_YES;
	}
	if (*upload_bytes) {
		if (*upload_bytes > sizeof(body->text) - body->bytes) {
			body->too_long = true;
		} else {
			memcpy(body->text + body->bytes, upload, *upload_bytes);
			body->bytes += *upload_bytes;
		}
		*upload_bytes = 0;
		return MHD_YES;
	}
	return route(http->engine, conn, url, method, body);
}

static void on_completed(void *arg, struct MHD_Connection *conn, void **state,
			 enum MHD_RequestTerminationCode why)
{
	struct http *http = arg;

	if (!*state)
		return;
	free(*state);
	*state = NULL;
	pthread_mutex_lock(&http->lock);
	if (!--http->n_running)
		pthread_cond_signal(&http->idle);
	pthread_mutex_unlock(&http->lock);
}

int http_start(struct http **ret, struct engine *engine, unsigned port)
{
	const struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct http *http = calloc(1, sizeof(*http));

	if (!http)
		return -ENOMEM;
	http->engine = engine;
	pthread_mutex_init(&http->lock, NULL);
	pthread_cond_init(&http->idle, NULL);
	errno = 0;
	http->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
			MHD_USE_ITC,
		(uint16_t)port, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR,
		(const struct sockaddr *)&addr, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_LIMIT_S, MHD_OPTION_THREAD_STACK_SIZE,
		(size_t)THREAD_STACK_BYTES, MHD_OPTION_END);
	if (!http->daemon) {
		int err = errno ? -errno : -EIO;

		pthread_cond_destroy(&http->idle);
		pthread_mutex_destroy(&http->lock);
		free(http);
		return err;
	}
	*ret = http;
	return 0;
}

unsigned http_port(const struct http *http)
{
	return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void http_drain(struct http *http, unsigned limit_s)
{
	MHD_socket listener = MHD_quiesce_daemon(http->daemon);
	struct timespec deadline;
	int r = 0;

	if (listener != MHD_INVALID_SOCKET)
		close(listener);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += limit_s;
	pthread_mutex_lock(&http->lock);
	while (http->n_running && !r)
		r = pthread_cond_timedwait(&http->idle, &http->lock, &deadline);
	pthread_mutex_unlock(&http->lock);
}

void http_stop(struct http *http)
{
	MHD_stop_daemon(http->daemon);
	pthread_cond_destroy(&http->idle);
	pthread_mutex_destroy(&http->lock);
	free(http);
}
