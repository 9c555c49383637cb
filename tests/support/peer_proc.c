/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine on a socketpair. See peer_proc.h. */
#include "support/peer_proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pn_memwatch.h"

#define GIB (1ull << 30)

static void look_around(struct peer_answer *answer)
{
	pn_mem_state state;
	pn_mem_ext ext;

	answer->source = pn_memwatch_source();
	if (pn_memwatch_read_ext(&state, &ext))
		return;
	answer->host_avail_bytes = state.host_avail_bytes;
	answer->host_reserved_bytes = ext.host_reserved_bytes;
	answer->cgroup_reserved_bytes = ext.cgroup_reserved_bytes;
	memcpy(answer->die_reserved_bytes, ext.die_reserved_bytes,
	       sizeof(answer->die_reserved_bytes));
	pn_admit_load_spike_ext(&state, &ext, &answer->spike);
	pn_admit_load_spike(&state, &answer->spec);
	pn_admit_model_load_ext(8 * GIB, 0, 0, 0, 0, &state, &ext, &answer->load);
	pn_admit_model_load_die_ext(8 * GIB, 0, 0, &state, &ext, &answer->load_die);
}

static void act(const struct peer_ask *ask, struct peer_answer *answer)
{
	const uint8_t uuid[16] = { ask->uuid };
	pn_reservation lines[1024];

	switch (ask->op) {
	case PEER_START:
		answer->r = pn_memwatch_start();
		break;
	case PEER_STOP:
		pn_memwatch_stop();
		break;
	case PEER_RESERVE:
		if (ask->uuid) {
			answer->r = pn_reserve_uuid(uuid, ask->bytes, ask->ttl_ms, &answer->id,
						    &answer->fit_bytes);
			break;
		}
		answer->r = pn_reserve(ask->die, ask->bytes, ask->ttl_ms, &answer->id,
				       &answer->fit_bytes);
		break;
	case PEER_COMMIT:
		answer->r = pn_commit(ask->id);
		break;
	case PEER_RELEASE:
		answer->r = pn_release(ask->id);
		break;
	case PEER_SET_DIE:
		if (ask->uuid) {
			answer->r = pn_memwatch_set_die_uuid(uuid, ask->bytes, 100 * GIB, 0);
			break;
		}
		pn_memwatch_set_die(ask->die, ask->bytes, 100 * GIB, 0);
		break;
	case PEER_READ:
		pn_memwatch_poll_now();
		break;
	case PEER_LIST:
		answer->r = pn_reservations(lines, 1024);
		memcpy(answer->line, lines, sizeof(answer->line));
		break;
	}
	look_around(answer);
}

static void run(int sock, uid_t as_uid)
{
	struct peer_ask ask;

	if (as_uid && setuid(as_uid))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* afterwards: a change of user takes it back */
	while (recv(sock, &ask, sizeof(ask), 0) == sizeof(ask)) {
		struct peer_answer answer = { 0 };

		act(&ask, &answer);
		if (send(sock, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

int peer_proc_start(struct peer_proc *peer, uid_t as_uid)
{
	int socks[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		return -errno;
	peer->pid = fork();
	if (!peer->pid) {
		close(socks[0]);
		run(socks[1], as_uid);
	}
	close(socks[1]);
	peer->sock = socks[0];
	return peer->pid < 0 ? -EAGAIN : 0;
}

struct peer_answer peer_proc_do(const struct peer_proc *peer, struct peer_ask ask)
{
	struct peer_answer answer;

	if (send(peer->sock, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask) ||
	    recv(peer->sock, &answer, sizeof(answer), 0) != sizeof(answer))
		answer = (struct peer_answer){ .r = -ESHUTDOWN };
	return answer;
}

struct peer_answer peer_reserve(const struct peer_proc *peer, int die, uint64_t bytes)
{
	return peer_proc_do(peer, (struct peer_ask){ .op = PEER_RESERVE,
						     .die = die,
						     .bytes = bytes,
						     .ttl_ms = PEER_TTL_MS });
}

struct peer_answer peer_end(const struct peer_proc *peer, enum peer_op op, uint64_t id)
{
	return peer_proc_do(peer, (struct peer_ask){ .op = op, .id = id });
}

struct peer_answer peer_look(const struct peer_proc *peer)
{
	return peer_proc_do(peer, (struct peer_ask){ .op = PEER_READ });
}

void peer_set_die(const struct peer_proc *peer, int die, uint64_t free_bytes)
{
	peer_proc_do(peer,
		     (struct peer_ask){ .op = PEER_SET_DIE, .die = die, .bytes = free_bytes });
}

void peer_proc_kill(struct peer_proc *peer)
{
	if (peer->pid <= 0)
		return;
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	close(peer->sock);
	peer->pid = 0;
}
