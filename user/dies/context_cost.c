/* SPDX-License-Identifier: BSD-2-Clause */
/* Measuring the sampler's own context. See context_cost.h. */
#include "dies/context_cost.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Other processes allocate meanwhile; a busy machine may never hold still. */
#define TRIES_MAX 3

static int spawn_holder(const char *library, const char *pci, int fd, pid_t *ret_pid)
{
	char *argv[] = {
		program_invocation_name, "--cuda-lib", (char *)library, "--hold", (char *)pci, NULL
	};
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd, DIE_MESSAGE_FD);
	/* As we were started: /proc/self/exe would be the loader where that started us by hand. */
	r = posix_spawn(ret_pid, program_invocation_name, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

void context_cost_start(struct context_cost *cost, struct die *die, const struct die_sample *last,
			const char *library)
{
	int pair[2], pidfd = -1;
	pid_t pid = 0;

	if (cost->state != COST_IDLE || die->own_context_bytes || die->cost_tries >= TRIES_MAX)
		return;
	if (last->state != DIE_OK || last->free_bytes < last->total_bytes / 2)
		return;
	die->cost_tries++;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;
	if (!spawn_holder(library, die->identity.pci, pair[1], &pid))
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
	close(pair[1]);
	if (pidfd < 0) {
		close(pair[0]); /* which ends the holder, if there is one */
		return;
	}
	*cost = (struct context_cost){
		.state = COST_RETAINING,
		.fd = pair[0],
		.pidfd = pidfd,
		.pid = pid,
		.die = die,
		.before_bytes = last->free_bytes,
	};
}

/* Only when the holder is gone is its memory back. */
static void wait_for_end(struct context_cost *cost)
{
	close(cost->fd);
	cost->fd = cost->pidfd;
	cost->state = COST_LEAVING;
}

bool context_cost_continue(struct context_cost *cost, const struct cuda *cuda)
{
	struct die_sample now;
	bool good = true;
	char said;

	if (cost->state == COST_RETAINING) {
		cost->during_bytes = 0;
		if (recv(cost->fd, &said, 1, MSG_DONTWAIT) == 1) {
			good = die_sample(cuda, cost->die, &now);
			cost->during_bytes = now.free_bytes;
		}
		wait_for_end(cost);
		return good;
	}
	close(cost->pidfd);
	waitpid(cost->pid, NULL, WNOHANG);
	cost->state = COST_IDLE;
	good = die_sample(cuda, cost->die, &now);
	if (good && now.state == DIE_OK && now.free_bytes == cost->before_bytes &&
	    cost->during_bytes && cost->during_bytes < cost->before_bytes)
		cost->die->own_context_bytes = cost->before_bytes - cost->during_bytes;
	return good;
}

enum die_exit context_cost_hold(const struct cuda *cuda, struct die *dies, int n_dies,
				const char *pci)
{
	struct die_sample sample;
	char end;

	for (int i = 0; i < n_dies; i++) {
		if (strcmp(dies[i].identity.pci, pci))
			continue;
		if (!die_sample(cuda, &dies[i], &sample) || sample.state != DIE_OK)
			return DIE_EXIT_CUDA;
		if (send(DIE_MESSAGE_FD, "", 1, MSG_NOSIGNAL) == 1)
			recv(DIE_MESSAGE_FD, &end, 1, 0);
		return DIE_EXIT_CLOSED;
	}
	return DIE_EXIT_NO_DEVICE;
}
