/* SPDX-License-Identifier: BSD-2-Clause */
/* See finder_hung.h. */
#include "core/finder_hung.h"

#define TIMES_MAX 5

void finder_hung_add(struct finder_hung *hung, int pid, uint32_t uid, uint32_t round)
{
	size_t place = 0;

	for (size_t i = 0; i < FINDER_HUNG_MAX; i++)
		if (hung->process[i].until_round < hung->process[place].until_round)
			place = i;
	for (size_t i = 0; i < FINDER_HUNG_MAX; i++)
		if (hung->process[i].pid == pid)
			place = i;
	if (hung->process[place].pid != pid)
		hung->process[place].times = 0;
	hung->process[place].pid = pid;
	hung->process[place].uid = uid;
	if (hung->process[place].times < TIMES_MAX)
		hung->process[place].times++;
	hung->process[place].until_round = round + (1u << hung->process[place].times);
}

size_t finder_hung_count(const struct finder_hung *hung, uint32_t round)
{
	size_t n = 0;

	for (size_t i = 0; i < FINDER_HUNG_MAX; i++)
		n += hung->process[i].pid && round < hung->process[i].until_round;
	return n;
}

bool finder_hung_has(const struct finder_hung *hung, int pid, uint32_t uid, uint32_t round)
{
	size_t n = 0;

	for (size_t i = 0; i < FINDER_HUNG_MAX; i++) {
		if (!hung->process[i].pid || round >= hung->process[i].until_round)
			continue;
		if (hung->process[i].pid == pid)
			return true;
		n += hung->process[i].uid == uid;
	}
	return uid && n >= FINDER_HUNG_USER_MAX;
}
