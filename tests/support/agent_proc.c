/* SPDX-License-Identifier: BSD-2-Clause */
/* Running the built agent. See agent_proc.h. */
#include "support/agent_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/clock.h"

#define LIMIT_MS 10000
#define ARGS_MAX 16

bool test_until(bool (*cond)(void *arg), void *arg, int limit_ms)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	uint64_t end_ns = clock_now_ns() + (uint64_t)limit_ms * 1000000;

	while (!cond(arg)) {
		if (clock_now_ns() > end_ns)
			return false;
		nanosleep(&step, NULL);
	}
	return true;
}

int agent_proc_init(struct agent_proc *agent)
{
	memset(agent, 0, sizeof(*agent));
	strcpy(agent->dir, "/tmp/pnmem-test-XXXXXX");
	if (!mkdtemp(agent->dir))
		return -errno;
	snprintf(agent->socket_path, sizeof(agent->socket_path), "%s/s", agent->dir);
	snprintf(agent->log_path, sizeof(agent->log_path), "%s/log", agent->dir);
	setenv("PN_SOCKET", agent->socket_path, 1);
	return 0;
}

static void run_child(const struct agent_proc *agent, const char *const args[])
{
	const char *program = getenv("PNMEMD");
	const char *argv[ARGS_MAX] = { program ? program : "build/pnmemd", "--foreground",
				       "--socket", agent->socket_path };
	int log = open(agent->log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	for (int i = 0, n = 4; args && args[i] && n < ARGS_MAX - 1; i++)
		argv[n++] = args[i];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	execv(argv[0], (char *const *)argv);
	_exit(127);
}

static bool ended(const struct agent_proc *agent)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)agent->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
	       info.si_pid == agent->pid;
}

static bool accepts_or_ended(void *arg)
{
	const struct agent_proc *agent = arg;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool accepted;

	strcpy(addr.sun_path, agent->socket_path);
	accepted = !connect(sock, (struct sockaddr *)&addr, sizeof(addr));
	close(sock);
	return accepted || ended(agent);
}

int agent_proc_start(struct agent_proc *agent, const char *const args[])
{
	agent->pid = fork();
	if (agent->pid < 0)
		return -errno;
	if (!agent->pid)
		run_child(agent, args);
	if (!test_until(accepts_or_ended, agent, LIMIT_MS))
		return -ETIMEDOUT;
	return ended(agent) ? -ECHILD : 0;
}

void agent_proc_signal(const struct agent_proc *agent, int signal_number)
{
	kill(agent->pid, signal_number);
}

static bool has_ended(void *arg)
{
	return ended(arg);
}

int agent_proc_wait(struct agent_proc *agent)
{
	int status;

	if (!test_until(has_ended, agent, LIMIT_MS))
		return -ETIMEDOUT;
	waitpid(agent->pid, &status, 0);
	agent->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void agent_proc_kill(struct agent_proc *agent)
{
	if (agent->pid <= 0)
		return;
	kill(agent->pid, SIGKILL);
	waitpid(agent->pid, NULL, 0);
	agent->pid = 0;
}

int agent_proc_log_count(const struct agent_proc *agent, const char *text)
{
	FILE *log = fopen(agent->log_path, "re");
	char line[1024];
	int n = 0;

	while (log && fgets(line, sizeof(line), log))
		n += strstr(line, text) != NULL;
	if (log)
		fclose(log);
	return n;
}

int agent_proc_descriptors(const struct agent_proc *agent, int *ret_pages)
{
	char path[32], target[64];
	int n = 0, n_pages = 0;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", agent->pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (bytes < 0)
			continue;
		target[bytes] = 0;
		if (strstr(target, "memfd:pnmem-page"))
			n_pages++;
		else
			n++;
	}
	closedir(dir);
	if (ret_pages)
		*ret_pages = n_pages;
	return n;
}

long agent_proc_rss_kib(const struct agent_proc *agent)
{
	char path[64], line[128];
	long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", agent->pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmRSS:", 6))
			kib = atol(line + 6);
	if (f)
		fclose(f);
	return kib;
}

void agent_proc_log_print(const struct agent_proc *agent)
{
	FILE *log = fopen(agent->log_path, "re");
	char line[1024];

	while (log && fgets(line, sizeof(line), log))
		printf("# %s", line);
	if (log)
		fclose(log);
}

void agent_proc_destroy(struct agent_proc *agent)
{
	static const char *const suffixes[] = { "", ".lock", ".pressure" };
	char path[128];

	agent_proc_kill(agent);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", agent->socket_path, suffixes[i]);
		unlink(path);
	}
	unlink(agent->log_path);
	rmdir(agent->dir);
}
