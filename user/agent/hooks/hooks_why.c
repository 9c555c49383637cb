/* SPDX-License-Identifier: BSD-2-Clause */
/* Why hooks cannot be had. See hooks_why.h. */
#include "agent/hooks/hooks_why.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/btf.h>

static bool name_starts(const char *name, const char *start)
{
	return strncmp(name, start, strlen(start)) == 0;
}

/* "integrity" from "none [integrity] confidentiality"; false if it cannot be read. */
static bool lockdown_mode(char *ret, size_t ret_bytes)
{
	int fd = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);
	char text[128];
	char *begin, *end;
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	begin = strchr(text, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (!end)
		return false;
	*end = '\0';
	snprintf(ret, ret_bytes, "%s", begin + 1);
	return true;
}

int hooks_btf_check(const char *btf_path)
{
	struct btf *btf;

	if (!btf_path)
		return 0;
	btf = btf__parse(btf_path, NULL);
	if (!btf)
		return -errno;
	btf__free(btf);
	return 0;
}

bool hooks_reading_is_locked_down(void)
{
	char mode[32];

	return lockdown_mode(mode, sizeof(mode)) && strcmp(mode, "confidentiality") == 0;
}

/* libbpf raises the limit where the kernel counts maps by it, unless it may not. */
static bool memlock_is_limited(void)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY;
}

void hooks_why(const char *name, const char *btf_path, int err, char *ret, size_t ret_bytes)
{
	bool trampoline = name_starts(name, "fentry") || name_starts(name, "fexit");
	bool kprobe = name_starts(name, "kprobe") || name_starts(name, "kretprobe");
	/* These are checked against the kernel's own types, whatever file CO-RE uses. */
	bool kernel_btf = trampoline || name_starts(name, "tp_btf") || !btf_path;
	char mode[32];

	if ((err == -EPERM || err == -EACCES) && geteuid() != 0)
		snprintf(ret, ret_bytes, "not root (CAP_BPF and CAP_PERFMON are needed)");
	else if (err == -EPERM && lockdown_mode(mode, sizeof(mode)) && strcmp(mode, "none") != 0)
		snprintf(ret, ret_bytes, "kernel lockdown=%s refuses it", mode);
	else if (err == -EPERM && trampoline)
		snprintf(ret, ret_bytes,
			 "likely kernel lockdown (no readable "
			 "/sys/kernel/security/lockdown to confirm it)");
	else if (err == -EPERM && memlock_is_limited())
		snprintf(ret, ret_bytes, "RLIMIT_MEMLOCK is too low, or a capability is missing");
	else if (err == -EPERM)
		snprintf(ret, ret_bytes, "a capability is missing, or kernel lockdown");
	else if (btf_path && access(btf_path, R_OK) != 0)
		snprintf(ret, ret_bytes, "the BTF file that was given cannot be read");
	else if (kernel_btf && access("/sys/kernel/btf/vmlinux", R_OK) != 0)
		snprintf(ret, ret_bytes, "no kernel BTF (/sys/kernel/btf/vmlinux)");
	else if (hooks_btf_check(btf_path))
		snprintf(ret, ret_bytes, "the BTF file that was given cannot be parsed");
	else if (kprobe && access("/sys/bus/event_source/devices/kprobe", F_OK) != 0)
		snprintf(ret, ret_bytes, "kernel built without CONFIG_KPROBES");
	else if (err == -ENOMEM)
		snprintf(ret, ret_bytes, "no memory, or RLIMIT_MEMLOCK is too low");
	else if (err == -ENOENT || err == -ESRCH)
		snprintf(ret, ret_bytes, "this kernel has no such function or tracepoint");
	else if (err == -EOPNOTSUPP || err == -ENOTSUP)
		snprintf(ret, ret_bytes, "this kernel cannot attach programs of this kind");
	else if (err == -EINVAL || err == -EACCES)
		snprintf(ret, ret_bytes,
			 "the kernel's verifier refuses it (a field or helper it lacks)");
	else
		snprintf(ret, ret_bytes, "%s", strerrordesc_np(-err));
}
