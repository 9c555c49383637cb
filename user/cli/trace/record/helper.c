/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper of pnmem trace record: a second pnmemd, since only pnmemd has the kernel hooks. It is
 * a process of its own with rings of its own, so that it does not slow the agent down.
 */
#include "cli/trace/record/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"

/*
 * Takes PNMEM_AGENT, or else the pnmemd beside this program, where the build puts it, or the
 * installed one.
 */
static void find_program(char *path, size_t bytes)
{
	const char *env = getenv("PNMEM_AGENT");
	ssize_t n = readlink("/proc/self/exe", path, bytes - 32);
	char *name;

	if (env && *env) {
		snprintf(path, bytes, "%s", env);
		return;
	}
	path[n > 0 ? n : 0] = 0;
	name = strrchr(path, '/');
	name = name ? name + 1 : path;
	strcpy(name, "pnmemd");
	if (access(path, X_OK))
		strcpy(name, "../sbin/pnmemd");
}

int record_helper_start(struct record_helper *helper)
{
	char path[4096];
	int in[2], out[2];

	memset(helper, 0, sizeof(*helper));
	helper->out_fd = helper->in_fd = -1;
	find_program(path, sizeof(path));
	if (access(path, X_OK)) {
		fprintf(stderr, "pnmem: no pnmemd at %s (PNMEM_AGENT): it has the kernel hooks\n",
			path);
		return CLI_FAILED;
	}
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
		fprintf(stderr, "pnmem: no pipe: %s\n", strerror(errno));
		return CLI_FAILED;
	}
	fcntl(out[1], F_SETPIPE_SZ,
	      (int)sizeof(helper->buffer)); /* if the kernel allows it, there are fewer wake-ups */
	helper->pid = fork();
	if (!helper->pid) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(path, "pnmemd", "--record-events", (char *)NULL);
		fprintf(stderr, "pnmem: cannot run %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	helper->in_fd = in[1];
	helper->out_fd = out[0];
	if (helper->pid > 0)
		return 0;
	fprintf(stderr, "pnmem: cannot fork: %s\n", strerror(errno));
	record_helper_end(helper);
	return CLI_FAILED;
}

bool record_helper_read(struct record_helper *helper,
			void (*fn)(void *arg, const struct trace_record *record, const void *raw,
				   size_t bytes),
			void *arg)
{
	struct trace_record record;
	size_t used;
	ssize_t n;

	memmove(helper->buffer, helper->buffer + helper->from, helper->to - helper->from);
	helper->to -= helper->from;
	helper->from = 0;
	n = read(helper->out_fd, helper->buffer + helper->to, sizeof(helper->buffer) - helper->to);
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0)
		return false;
	helper->to += (size_t)n;
	while (!trace_read_record(helper->buffer + helper->from, helper->to - helper->from, &record,
				  &used)) {
		fn(arg, &record, helper->buffer + helper->from, used);
		helper->from += used;
	}
	return true;
}

void record_helper_end(struct record_helper *helper)
{
	if (helper->in_fd >= 0)
		close(helper->in_fd);
	if (helper->out_fd >= 0)
		close(helper->out_fd);
	helper->in_fd = helper->out_fd = -1;
	if (helper->pid > 0)
		waitpid(helper->pid, &helper->status, 0);
	helper->pid = 0;
}
