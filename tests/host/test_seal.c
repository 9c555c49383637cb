/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page that the agent hands out cannot be written, shrunk or grown by who is handed it. Each
 * way to try is a function; it is tried on the memfd of a real agent, on the same file opened anew
 * through /proc/self/fd, as this user and as one without any rights. The same functions succeed on
 * a memfd without seals, or a refusal would prove nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "core/page.h"
#include "support/agent_proc.h"
#include "support/raw_client.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define NOBODY 65534
/* Bytes of the page that no agent writes: what appears there is an intruder's. */
#define SPARE_AT    offsetof(struct page, reserved)
#define SPARE_BYTES sizeof(((struct page *)0)->reserved)
/* Where a try leaves its mark; holes are punched over the whole first page. */
static const char mark[8] = "intruder";

static struct agent_proc agent;
static struct raw_client client;

/* ---- the ways: each returns 0 where it got through, or -errno ------------------------------- */

static int try_mmap(int fd)
{
	char *map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	memcpy(map + SPARE_AT, mark, sizeof(mark));
	munmap(map, PAGE_BYTES);
	return 0;
}

/* A mapping that was made to be read. */
static int try_mprotect(int fd)
{
	char *map = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	int r = 0;

	if (map == MAP_FAILED)
		return -errno;
	if (mprotect(map, PAGE_BYTES, PROT_READ | PROT_WRITE))
		r = -errno;
	else
		memcpy(map + SPARE_AT, mark, sizeof(mark));
	munmap(map, PAGE_BYTES);
	return r;
}

/* Frees the pages of the file under a mapping. */
static int try_madvise_remove(int fd)
{
	char *map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int r;

	if (map == MAP_FAILED)
		map = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r = madvise(map, PAGE_BYTES, MADV_REMOVE) ? -errno : 0;
	munmap(map, PAGE_BYTES);
	return r;
}

static int try_truncate_to_nothing(int fd)
{
	return ftruncate(fd, 0) ? -errno : 0;
}

static int try_truncate_by_a_page(int fd)
{
	return ftruncate(fd, PAGE_BYTES - 4096) ? -errno : 0;
}

static int try_truncate_longer(int fd)
{
	return ftruncate(fd, 2 * PAGE_BYTES) ? -errno : 0;
}

static int try_pwrite(int fd)
{
	return pwrite(fd, mark, sizeof(mark), SPARE_AT) < 0 ? -errno : 0;
}

static int try_write(int fd)
{
	if (lseek(fd, SPARE_AT, SEEK_SET) < 0)
		return -errno;
	return write(fd, mark, sizeof(mark)) < 0 ? -errno : 0;
}

static int try_write_behind_the_end(int fd)
{
	return pwrite(fd, mark, sizeof(mark), PAGE_BYTES) < 0 ? -errno : 0;
}

static int try_pwritev2(int fd)
{
	struct iovec iov = { (void *)mark, sizeof(mark) };

	return pwritev2(fd, &iov, 1, SPARE_AT, 0) < 0 ? -errno : 0;
}

static int try_splice(int fd)
{
	loff_t at = SPARE_AT;
	int pipe_fd[2], r = 0;

	if (pipe(pipe_fd))
		return -errno;
	if (write(pipe_fd[1], mark, sizeof(mark)) < 0 ||
	    splice(pipe_fd[0], NULL, fd, &at, sizeof(mark), 0) < 0)
		r = -errno;
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	return r;
}

static int try_sendfile(int fd)
{
	int from = memfd_create("from", MFD_CLOEXEC), r = 0;

	if (from < 0)
		return -errno;
	if (pwrite(from, mark, sizeof(mark), 0) < 0 || lseek(from, 0, SEEK_SET) < 0 ||
	    lseek(fd, SPARE_AT, SEEK_SET) < 0 || sendfile(fd, from, NULL, sizeof(mark)) < 0)
		r = -errno;
	close(from);
	return r;
}

static int try_punch_hole(int fd)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_BYTES) ? -errno
											: 0;
}

static int try_fallocate_longer(int fd)
{
	return fallocate(fd, 0, 0, 2 * PAGE_BYTES) ? -errno : 0;
}

/* F_SEAL_WRITE would forbid the agent's own next mapping, had it to make one. */
static int try_more_seals(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) ? -errno : 0;
}

static const struct way {
	const char *name;
	int (*try)(int fd);
} way_table[] = {
	{ "mmap to write", try_mmap },
	{ "mmap to read, then mprotect", try_mprotect },
	{ "madvise MADV_REMOVE", try_madvise_remove },
	{ "ftruncate to 0", try_truncate_to_nothing },
	{ "ftruncate by a page", try_truncate_by_a_page },
	{ "ftruncate to twice the size", try_truncate_longer },
	{ "pwrite", try_pwrite },
	{ "write", try_write },
	{ "pwrite behind the end", try_write_behind_the_end },
	{ "pwritev2", try_pwritev2 },
	{ "splice from a pipe", try_splice },
	{ "sendfile", try_sendfile },
	{ "fallocate, a hole", try_punch_hole },
	{ "fallocate to twice the size", try_fallocate_longer },
	{ "fcntl F_ADD_SEALS", try_more_seals },
};

#define WAYS (sizeof(way_table) / sizeof(way_table[0]))

/* ---- what must not have changed ------------------------------------------------------------- */

static void expect_intact(int memfd)
{
	const uint64_t zero[SPARE_BYTES / sizeof(uint64_t)] = { 0 };
	const struct page *page;
	struct page_view view = { 0 };
	pn_mem_state state;
	struct stat st;

	assert_int_equal(fstat(memfd, &st), 0);
	assert_int_equal(st.st_size, PAGE_BYTES);
	assert_int_equal(fcntl(memfd, F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, memfd, 0);
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_memory_equal(page->reserved, zero, SPARE_BYTES);
	assert_int_equal(page_open(&view, page, PAGE_BYTES), 0);
	assert_int_equal(page_read(&view, &state, NULL), 0);
	assert_true(state.host_total_bytes > 0);
	munmap((void *)page, PAGE_BYTES);
}

static int open_anew(int memfd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The way on the descriptor as handed out, and on one opened anew. True if none got through. */
static bool is_refused(const struct way *way, int memfd)
{
	int again, r = way->try(memfd);

	if (!r)
		return false;
	again = open_anew(memfd);
	if (again < 0)
		return true; /* that it cannot be opened refuses it too */
	r = way->try(again);
	close(again);
	return r < 0;
}

static void test_refused(void **state)
{
	assert_true(is_refused(*state, client.memfd));
	expect_intact(client.memfd);
}

/* As a client of another user would: it connects, gets its page and tries. Its exit status. */
static int try_as_nobody(const struct way *way)
{
	struct raw_client own;

	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		return 2;
	prctl(PR_SET_DUMPABLE, 1); /* or /proc/self stays root's */
	if (raw_client_open(&own, agent.socket_path))
		return 3;
	return is_refused(way, own.memfd) ? 0 : 1;
}

static void test_refused_to_nobody(void **state)
{
	int status;
	pid_t pid;

	if (geteuid())
		skip_because("needs root to become another user");
	pid = fork();
	if (!pid)
		_exit(try_as_nobody(*state));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	expect_intact(client.memfd);
}

/* Without seals it gets through. */
static void test_way_works(void **state)
{
	const struct way *way = *state;
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE_BYTES), 0);
	assert_int_equal(way->try(fd), 0);
	close(fd);
}

/* A private mapping may be written: the copy is the writer's own. */
static void test_private_copy(void **state)
{
	char *map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, client.memfd, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	memset(map, 0xff, PAGE_BYTES);
	expect_intact(client.memfd);
	munmap(map, PAGE_BYTES);
}

/* After all of it the agent goes on publishing on that page. */
static void test_goes_on(void **state)
{
	const struct page *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, client.memfd, 0);
	uint64_t seq = atomic_load(&page->seq);
	struct raw_client other;

	assert_int_equal(raw_client_open(&other, agent.socket_path), 0); /* a hello publishes */
	raw_client_close(&other);
	assert_true(atomic_load(&page->seq) > seq);
	munmap((void *)page, PAGE_BYTES);
}

static int setup(void **state)
{
	static const char *const args[] = { "--no-bpf", NULL };
	int r = agent_proc_init(&agent);

	if (!r)
		r = chmod(agent.dir, 0755); /* for the other user */
	if (!r)
		r = agent_proc_start(&agent, args);
	if (!r)
		r = raw_client_open(&client, agent.socket_path);
	if (r)
		agent_proc_log_print(&agent);
	return r;
}

static int teardown(void **state)
{
	raw_client_close(&client);
	agent_proc_destroy(&agent);
	return 0;
}

int main(void)
{
	static const struct {
		const char *name;
		CMUnitTestFunction test;
	} who[] = {
		{ "gets through without seals", test_way_works },
		{ "refused", test_refused },
		{ "refused to another user", test_refused_to_nobody },
	};
	static char names[WAYS * 3][96];
	static struct CMUnitTest tests[WAYS * 3 + 2];
	size_t n = 0;

	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < WAYS; k++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", way_table[k].name,
				 who[i].name);
			tests[n].name = names[n];
			tests[n].test_func = who[i].test;
			tests[n].initial_state = (void *)&way_table[k];
		}
	}
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_private_copy);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_goes_on);
	return cmocka_run_group_tests_name("seal", tests, setup, teardown);
}
