/* SPDX-License-Identifier: BSD-2-Clause */
/* pnmemd: options, start, event loop, end. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/gpu/child.h"
#include "agent/serve/closer.h"
#include "agent/gpu/dies.h"
#include "agent/folder.h"
#include "agent/views/follow.h"
#include "agent/log.h"
#include "agent/notify.h"
#include "agent/pressure/pressure_watch.h"
#include "agent/privileges.h"
#include "agent/hooks/record.h"
#include "agent/recorder/recorder.h"
#include "agent/serve/reserve.h"
#include "core/settings.h"
#include "host/clock.h"

/* Found by argp in libc, so it must be visible. */
__attribute__((visibility("default"))) const char *argp_program_version = "pnmemd " PNMEM_VERSION;

enum {
	OPT_NO_BPF = 256,
	OPT_FOREGROUND,
	OPT_PROCFS,
	OPT_CGROUPFS,
	OPT_STALL_HOOK,
	OPT_CUDA_LIB,
	OPT_REPLACE,
};

static const struct argp_option option_table[] = {
	{ "socket", 's', "PATH", 0,
	  "Serve engines on this socket (PN_SOCKET, else " PN_SOCKET_DEFAULT ")", 0 },
	{ "foreground", OPT_FOREGROUND, 0, 0, "Stay in the foreground", 0 },
	{ "replace", OPT_REPLACE, 0, 0, "Take over from the agent that serves the socket, if any",
	  0 },
	{ "no-bpf", OPT_NO_BPF, 0, 0, "Load no BPF programs; use a PSI trigger or a poll", 0 },
	{ "stall-hook", OPT_STALL_HOOK, "RUNG", 0,
	  "Best hook to try for stalls, and so for cgroup events: fentry (default), kprobe, "
	  "tracepoint, trigger, poll",
	  0 },
	{ "procfs", OPT_PROCFS, "DIR", 0, "Read this instead of /proc", 0 },
	{ "cuda-lib", OPT_CUDA_LIB, "PATH", 0,
	  "Sample dies through this libcuda, without looking for a driver first", 0 },
	{ "cgroupfs", OPT_CGROUPFS, "DIR", 0, "Read this instead of /sys/fs/cgroup", 0 },
	{ 0 },
};

static int parse_stall_hook(const char *name, uint32_t *ret_mode)
{
	static const char *const names[] = {
		[PN_MODE_FENTRY] = "fentry",
		[PN_MODE_KPROBE] = "kprobe",
		[PN_MODE_TRACEPOINT] = "tracepoint",
		[PN_MODE_PSI_TRIGGER] = "trigger",
		[PN_MODE_POLL] = "poll",
	};

	for (uint32_t i = PN_MODE_FENTRY; i <= PN_MODE_POLL; i++) {
		if (!strcmp(name, names[i])) {
			*ret_mode = i;
			return 0;
		}
	}
	return -EINVAL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct agent_options *options = state->input;

	switch (key) {
	case 's':
		options->socket_path = arg;
		return 0;
	case OPT_NO_BPF:
		options->no_bpf = true;
		return 0;
	case OPT_FOREGROUND:
		options->foreground = true;
		return 0;
	case OPT_REPLACE:
		options->replace = true;
		return 0;
	case OPT_PROCFS:
		options->procfs = arg;
		return 0;
	case OPT_CGROUPFS:
		options->cgroupfs = arg;
		return 0;
	case OPT_CUDA_LIB:
		options->cuda_lib = arg;
		return 0;
	case OPT_STALL_HOOK:
		if (parse_stall_hook(arg, &options->best_mode))
			argp_error(state, "no such hook: %s", arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument: %s", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char *get_env(void *arg, const char *name)
{
	return getenv(name);
}

static void warn_setting(void *arg, const char *name, const char *value, const char *fallback)
{
	log_line(LOG_WARNING, "%s=%s is not valid, using %s", name, value, fallback);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	agent_look(userdata, false);
	return 0;
}

/* Nothing is configured by a file, so there is nothing to read again: look, and go on. */
static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	agent_look(userdata, true);
	log_line(LOG_NOTICE, "SIGHUP: going on");
	return 0;
}

/*
 * Under memory pressure the agent must run when nothing else does: its pages stay in memory and
 * it is the last to be killed. Both are best effort; without root it still works.
 */
static void harden(void)
{
	struct rlimit descriptors = { 0 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, AGENT_OOM_SCORE_ADJ, strlen(AGENT_OOM_SCORE_ADJ)) < 0)
		log_line(LOG_NOTICE, "cannot lower the OOM score (CAP_SYS_RESOURCE): %s",
			 strerror(errno));
	if (fd >= 0)
		close(fd);
	/* One for each client, some for hooks (each CPU and program), about 15 for each watched
	 * cgroup. */
	getrlimit(RLIMIT_NOFILE, &descriptors);
	descriptors.rlim_cur = descriptors.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &descriptors))
		log_line(LOG_NOTICE, "cannot raise the descriptor limit: %s", strerror(errno));
	/* One heap: that of each thread would be another 64 MiB of locked addresses. */
	mallopt(M_ARENA_MAX, 1);
	malloc_trim(0);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		log_line(LOG_WARNING, "cannot lock memory: %s", strerror(errno));
}

/* After the first look, which loads what there is to load for libcuda. */
static void drop_privileges(const struct agent *agent)
{
	privileges_drop(agent->hooks_live || (!agent->options->no_bpf && dies_may_sample(agent)));
}

static int open_signals(struct agent *agent)
{
	sigset_t mask;
	int r;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD); /* of the die sampler, where the kernel has no pidfd */
	sigprocmask(SIG_BLOCK, &mask, NULL);
	r = sd_event_add_signal(agent->event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(agent->event, NULL, SIGHUP, on_hangup, agent);
	return r < 0 ? r : 0;
}

static int agent_open(struct agent *agent)
{
	static const struct views_calls views_calls = {
		.begun = dies_give,
		.ended = recorder_view_end,
	};
	int r;

	settings_level(&agent->config, get_env, NULL, warn_setting, NULL);
	agent->procfs_fd = open(agent->options->procfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (agent->procfs_fd < 0) {
		log_line(LOG_ERR, "cannot open %s: %s", agent->options->procfs, strerror(errno));
		return -errno;
	}
	agent->cgroupfs_fd = open(agent->options->cgroupfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (agent->cgroupfs_fd < 0)
		log_line(LOG_NOTICE, "no cgroups are read: %s: %s", agent->options->cgroupfs,
			 strerror(errno));
	r = sd_event_new(&agent->event);
	if (r < 0)
		return r;
	r = open_signals(agent);
	if (r)
		return r;
	r = closer_open(agent);
	if (r)
		return r;
	recorder_open(agent);
	r = dies_open(agent);
	if (!r)
		r = server_open(agent);
	if (!r)
		r = host_source_open(&agent->source, agent->procfs_fd);
	if (!r)
		r = views_open(agent, &views_calls);
	if (!r)
		r = sleepers_open(agent);
	if (!r)
		r = follow_open(agent);
	if (!r)
		r = sd_event_add_time(agent->event, &agent->timer, CLOCK_MONOTONIC, 0, 1, on_timer,
				      agent);
	if (r < 0)
		return r;
	wake_open(agent);
	/* Before the first look, which starts the sampler: two would see each other's memory. */
	r = server_take_over(agent);
	if (r < 0)
		return r;
	harden();
	agent_look(agent, true);
	pressure_watch_open(agent);
	drop_privileges(agent);
	return server_listen(agent);
}

static void agent_close(struct agent *agent)
{
	notify_close(agent);
	closer_end(agent);
	pressure_watch_close(agent);
	server_close(agent);
	follow_close(agent);
	reserve_close(agent);
	dies_close(agent);
	wake_close(agent);
	sleepers_close(agent);
	views_close(agent);
	host_source_close(&agent->source);
	recorder_close(agent);
	closer_close(agent);
	sd_event_source_disable_unref(agent->timer);
	sd_event_unref(agent->event);
	if (agent->cgroupfs_fd >= 0)
		close(agent->cgroupfs_fd);
	if (agent->procfs_fd >= 0)
		close(agent->procfs_fd);
}

/* sd_event_loop(), with the wake-ups counted. */
static int run(struct agent *agent)
{
	int r = 0;

	while (r >= 0 && sd_event_get_state(agent->event) != SD_EVENT_FINISHED) {
		r = sd_event_run(agent->event, UINT64_MAX);
		agent->wakeups++;
	}
	return r < 0 ? r : 0;
}

/* In the background the agent leaves this folder. A library without a '/' is looked for. */
static int make_paths_absolute(struct agent_options *options)
{
	static const char *const variables[] = { "PN_TRACE_DIR", "PNMEM_BTF", "PNMEM_DIES" };
	const char **paths[] = { &options->socket_path, &options->procfs, &options->cgroupfs,
				 &options->cuda_lib };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!*paths[i] || (paths[i] == &options->cuda_lib && !strchr(*paths[i], '/')))
			continue;
		*paths[i] = folder_absolute(*paths[i]);
		if (!*paths[i])
			return -errno;
	}
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *path = getenv(variables[i]);

		if (!path || !*path)
			continue;
		path = folder_absolute(path);
		if (!path || setenv(variables[i], path, 1))
			return -errno;
	}
	return 0;
}

/*
 * Into the background: the parent stays until the child is ready or has failed, and ends with the
 * child's status. Returns the descriptor on which the child reports; the parent does not return.
 */
static int go_background(void)
{
	int pipe_fd[2], status = EXIT_FAILURE;
	unsigned char ready;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid) {
		close(pipe_fd[1]);
		if (read(pipe_fd[0], &ready, 1) == 1)
			status = EXIT_SUCCESS;
		_exit(status);
	}
	close(pipe_fd[0]);
	setsid();
	return pipe_fd[1];
}

/* To who started it in the foreground and waits; -1: nobody. */
static void report_ready(int ready_fd)
{
	int null;

	if (ready_fd < 0)
		return;
	if (chdir("/") || write(ready_fd, "", 1) != 1)
		log_line(LOG_WARNING, "going to the background: %s", strerror(errno));
	close(ready_fd);
	log_background();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.doc = "Watches memory pressure and publishes it to engines on this host.",
	};
	const char *socket_path = getenv("PN_SOCKET");
	struct agent_options options = {
		.socket_path = socket_path && *socket_path ? socket_path : PN_SOCKET_DEFAULT,
		.procfs = "/proc",
		.cgroupfs = "/sys/fs/cgroup",
	};
	struct agent agent = {
		.options = &options,
		.procfs_fd = -1,
		.cgroupfs_fd = -1,
		.vmstat = HOST_FILE_INIT,
	};
	int ready_fd = -1, r;

	if (argc == 2 && !strcmp(argv[1], RECORD_OPTION))
		return record_main();
	prctl(PR_SET_NAME, "pnmemd"); /* the bundle's loader starts us under its own name */
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	r = make_paths_absolute(&options);
	if (r) {
		log_line(LOG_ERR, "cannot tell which folder this is: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	if (!options.foreground) {
		ready_fd = go_background();
		if (ready_fd < 0) {
			log_line(LOG_ERR, "cannot go to the background: %s", strerror(-ready_fd));
			return EXIT_FAILURE;
		}
	}
	r = agent_open(&agent);
	if (!r)
		r = notify_ready(&agent);
	if (!r) {
		log_line(LOG_NOTICE, "serving on %s", options.socket_path);
		report_ready(ready_fd);
		r = run(&agent);
		notify_close(&agent);
	}
	if (r)
		log_line(LOG_ERR, "ending: %s", strerror(-r));
	agent_close(&agent);
	return r ? EXIT_FAILURE : EXIT_SUCCESS;
}
