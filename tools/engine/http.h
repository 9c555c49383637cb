/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The HTTP front, on 127.0.0.1, one thread for each connection:
 *   POST /v1/completions  {"prompt_tokens": N, "max_tokens": M}: 200, 400, 413, 503 + Retry-After
 *   GET /healthz          200 while the process lives, under whatever pressure: do not restart it
 *   GET /readyz           503 while loading, stopping or at CRITICAL: send nothing new
 */
#ifndef ENGINE_HTTP_H
#define ENGINE_HTTP_H

#include "completion.h"

struct http;

/* Listens on port, 0 for any free one. Returns 0 or -errno. */
int http_start(struct http **ret, struct engine *engine, unsigned port);
unsigned http_port(const struct http *http);

/* Accepts no more, and waits at most limit_s for the requests that run. */
void http_drain(struct http *http, unsigned limit_s);

/* After http_drain: joins what still runs, and ends. */
void http_stop(struct http *http);

#endif
