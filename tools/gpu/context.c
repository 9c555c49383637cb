/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu-probe context LIBRARY PCI: what a context takes of a die. Two CUDA programs: one looks, with
 * a context of its own, before the other takes a like one, while that holds it, and after its end.
 * The lines are
 *
 *	before FREE_BYTES	during FREE_BYTES	after FREE_BYTES
 *
 * each after a line of standard input, so that somebody else can look meanwhile.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define LIMIT_MS 30000
/* A process gives its memory back some time after its end. */
#define BACK_TRIES   100
#define BACK_STEP_US 20000

struct program {
	pid_t pid;
	int to, from;
};

/* Before this process has anything of CUDA, which no child may inherit. */
static bool program_start(struct program *program, const char *library, const char *pci)
{
	char *argv[] = { "load", (char *)library, (char *)pci, "1", NULL };
	int in[2], out[2];

	if (pipe(in) || pipe(out))
		return false;
	program->pid = fork();
	if (!program->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		close(out[0]);
		exit(probe_load(argv));
	}
	close(in[0]);
	close(out[1]);
	program->to = in[1];
	program->from = out[0];
	return program->pid > 0;
}

/* Its next line's figure of what is free; 0: it has ended, or says nothing. */
static uint64_t program_answer(const struct program *program)
{
	struct pollfd pfd = { .fd = program->from, .events = POLLIN };
	unsigned long long free_bytes = 0;
	char line[160];
	size_t n = 0;

	while (n < sizeof(line) - 1 && poll(&pfd, 1, LIMIT_MS) == 1 &&
	       read(program->from, &line[n], 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
	return sscanf(line, "%*u %*u %*u %llu", &free_bytes) == 1 ? free_bytes : 0;
}

static uint64_t program_ask(const struct program *program)
{
	return write(program->to, "?", 1) == 1 ? program_answer(program) : 0;
}

static void program_end(const struct program *program)
{
	kill(program->pid, SIGKILL);
	waitpid(program->pid, NULL, 0);
	close(program->to);
	close(program->from);
}

static bool wait_for_line(void)
{
	int c;

	while ((c = getchar()) != EOF && c != '\n')
		;
	return c == '\n';
}

static void say(const char *when, uint64_t free_bytes)
{
	printf("%s %llu\n", when, (unsigned long long)free_bytes);
	fflush(stdout);
}

static int measure(const struct program *looker, const char *library, const char *pci)
{
	uint64_t before_bytes = program_ask(looker), during_bytes, after_bytes = 0;
	struct program holder;

	if (!before_bytes || !wait_for_line())
		return 1;
	say("before", before_bytes);
	if (!wait_for_line() || !program_start(&holder, library, pci))
		return 1;
	if (!program_answer(&holder)) {
		program_end(&holder);
		return 1;
	}
	during_bytes = program_ask(looker);
	say("during", during_bytes);
	wait_for_line();
	program_end(&holder);
	for (int i = 0; i < BACK_TRIES && after_bytes != before_bytes; i++) {
		usleep(i ? BACK_STEP_US : 0);
		after_bytes = program_ask(looker);
	}
	say("after", after_bytes);
	return 0;
}

int probe_context(char **argv)
{
	struct program looker;
	int status = 1;

	signal(SIGPIPE, SIG_IGN);
	if (!program_start(&looker, argv[1], argv[2]))
		return 1;
	if (program_answer(&looker))
		status = measure(&looker, argv[1], argv[2]);
	program_end(&looker);
	return status;
}
