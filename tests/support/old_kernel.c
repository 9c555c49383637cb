/* SPDX-License-Identifier: BSD-2-Clause */
/* See old_kernel.h. */
#include "support/old_kernel.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define VARIABLE "PNMEM_TEST_OLD_KERNEL" /* the program to become */

/* The low half of an argument, which is its first on the machines that this runs on. */
#define ARGUMENT(i) offsetof(struct seccomp_data, args[i])

static int refuse_option(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(1)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOL_SOCKET, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARGUMENT(2)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_PASSRIGHTS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

void old_kernel_main(char **argv)
{
	const char *program = getenv(VARIABLE);
	int r;

	if (!program)
		return;
	r = refuse_option();
	if (r) {
		fprintf(stderr, "seccomp: error %d\n", -r);
		_exit(126);
	}
	execv(program, argv);
	_exit(127);
}

void old_kernel_use(bool on)
{
	static const char *program;

	if (on == !!getenv(VARIABLE) || (on && !old_kernel_is_new()))
		return;
	if (on) {
		program = getenv("PNMEMD");
		setenv(VARIABLE, program ? program : "build/pnmemd", 1);
		setenv("PNMEMD", "/proc/self/exe", 1);
		return;
	}
	unsetenv(VARIABLE);
	if (program)
		setenv("PNMEMD", program, 1);
	else
		unsetenv("PNMEMD");
}

bool old_kernel_is_new(void)
{
	const int off = 0;
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_new = !setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));

	close(sock);
	return is_new;
}
