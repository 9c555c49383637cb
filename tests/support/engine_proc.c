/* SPDX-License-Identifier: BSD-2-Clause */
/* See engine_proc.h. */
#include "support/engine_proc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/agent_proc.h"

#define LIMIT_MS 60000
#define ARGS_MAX 32

/* A /proc with all that libpnmem reads but the pressure files. */
static int procfs_make(const char *dir)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/self", dir);
	if (symlink("/proc/self", path))
		return -errno;
	snprintf(path, sizeof(path), "%s/meminfo", dir);
	return symlink("/proc/meminfo", path) ? -errno : 0;
}

static void procfs_remove(const char *dir)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/self", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/meminfo", dir);
	unlink(path);
	rmdir(dir);
}

static void run_child(const struct engine_proc *engine, const struct pressure_group *group,
		      const char *socket_path, const char *const args[], int stdout_fd)
{
	const char *argv[ARGS_MAX] = { "build/tools/engine", "--port=0" };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	for (int i = 0, n = 2; args[i] && n < ARGS_MAX - 1; i++)
		argv[n++] = args[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pressure_group_join(group))
		_exit(126);
	setenv("PN_PROCFS", engine->dir, 1);
	setenv("PN_SOCKET", socket_path ? socket_path : "/nonexistent/pnmem.sock", 1);
	setenv("PN_HOST_RESERVE_BYTES", "64M", 1);
	/* Two of the engine's stages: one packed, one unpacked. */
	setenv("PN_LOAD_SPIKE_BYTES", "32M", 1);
	dup2(stdout_fd, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	execv(argv[0], (char *const *)argv);
	_exit(127);
}

/* Reads a line without its newline. False: end of file, or none within the limit. */
static bool line_read(int fd, char *line, size_t line_bytes)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	size_t length = 0;

	while (length < line_bytes - 1 && poll(&pfd, 1, LIMIT_MS) == 1 &&
	       read(fd, &line[length], 1) == 1 && line[length] != '\n')
		length++;
	line[length] = '\0';
	return length > 0;
}

static bool has_ended(void *arg)
{
	const struct engine_proc *engine = arg;
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)engine->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid == engine->pid;
}

int engine_proc_start(struct engine_proc *engine, const struct pressure_group *group,
		      const char *socket_path, const char *const args[])
{
	int fds[2], r;

	memset(engine, 0, sizeof(*engine));
	engine->stdout_fd = -1;
	strcpy(engine->dir, "/tmp/pnmem-engine-XXXXXX");
	if (!mkdtemp(engine->dir))
		return -errno;
	r = procfs_make(engine->dir);
	if (r)
		return r;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	engine->stdout_fd = fds[0];
	engine->pid = fork();
	if (!engine->pid)
		run_child(engine, group, socket_path, args, fds[1]);
	r = engine->pid < 0 ? -errno : 0;
	close(fds[1]);
	if (r)
		return r;
	if (line_read(engine->stdout_fd, engine->ready, sizeof(engine->ready)) &&
	    sscanf(engine->ready, "ready on http://127.0.0.1:%u", &engine->port) == 1)
		return 0;
	return test_until(has_ended, engine, LIMIT_MS) ? -ECHILD : -ETIMEDOUT;
}

int engine_proc_wait(struct engine_proc *engine)
{
	int status;

	line_read(engine->stdout_fd, engine->summary, sizeof(engine->summary));
	if (!test_until(has_ended, engine, LIMIT_MS))
		return -ETIMEDOUT;
	waitpid(engine->pid, &status, 0);
	engine->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void engine_proc_destroy(struct engine_proc *engine)
{
	if (engine->pid > 0) {
		kill(engine->pid, SIGKILL);
		waitpid(engine->pid, NULL, 0);
	}
	if (engine->stdout_fd >= 0)
		close(engine->stdout_fd);
	procfs_remove(engine->dir);
}

static int connect_to(unsigned port)
{
	const struct timeval limit = { .tv_sec = LIMIT_MS / 1000 };
	const struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!connect(sock, (const struct sockaddr *)&addr, sizeof(addr)))
		return sock;
	close(sock);
	return -ECONNREFUSED;
}

/* *reply stays as it is if the text is not a whole reply. */
static void reply_parse(const char *text, struct http_reply *reply)
{
	const char *body = strstr(text, "\r\n\r\n");
	const char *retry = strstr(text, "\r\nRetry-After: ");
	const char *length = strstr(text, "\r\nContent-Length: ");
	int status;

	if (!body || !length || sscanf(text, "HTTP/1.1 %d", &status) != 1 ||
	    strlen(body + 4) < strtoul(length + 18, NULL, 10))
		return;
	reply->status = status;
	if (retry && retry < body)
		reply->retry_after_s = (unsigned)strtoul(retry + 15, NULL, 10);
	snprintf(reply->body, sizeof(reply->body), "%s", body + 4);
}

struct http_reply engine_ask(const struct engine_proc *engine, const char *path, const char *body)
{
	struct http_reply reply = { 0 };
	char text[2048];
	size_t length = 0;
	ssize_t n;
	int sock = connect_to(engine->port);

	if (sock < 0)
		return reply;
	snprintf(text, sizeof(text),
		 "%s %s HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n"
		 "Content-Length: %zu\r\n\r\n%s",
		 body ? "POST" : "GET", path, body ? strlen(body) : 0, body ? body : "");
	if (send(sock, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text)) {
		while (length < sizeof(text) - 1 &&
		       (n = recv(sock, text + length, sizeof(text) - 1 - length, 0)) > 0)
			length += (size_t)n;
		text[length] = '\0';
		reply_parse(text, &reply);
	}
	close(sock);
	return reply;
}
