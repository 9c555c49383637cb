/* SPDX-License-Identifier: BSD-2-Clause */
/* Sampler messages: good ones pass whole, and each lie that a sampler could tell is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/die_message.h"

#define GIB (1ull << 30)

static struct die_message good_die(void)
{
	return (struct die_message){
		.header = die_header_make(DIE_KIND_DIE, 7),
		.die = { .index = 1,
			 .n_dies = 2,
			 .sample_ns = 1,
			 .free_bytes = 10 * GIB,
			 .total_bytes = 12 * GIB,
			 .own_context_bytes = GIB,
			 .pci = "0000:3b:00.0",
			 .name = "Tesla K80",
			 .board_group = -1 },
	};
}

static struct die_message good_driver(void)
{
	return (struct die_message){
		.header = die_header_make(DIE_KIND_DRIVER, 0),
		.driver = { .driver_version = 11040, .n_dies = 2, .library_path = "/lib/x.so" },
	};
}

static int check(const struct die_message *m)
{
	struct die_message ret;

	return die_message_check(m, sizeof(*m), &ret);
}

static void test_good(void **state)
{
	struct die_message messages[] = { good_driver(),
					  good_die(),
					  { .header = die_header_make(DIE_KIND_PASS_END, 9),
					    .pass_end.duration_ns = 5 } };

	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		struct die_message ret;

		assert_int_equal(die_message_check(&messages[i], sizeof(ret), &ret), 0);
		assert_memory_equal(&ret, &messages[i], sizeof(ret));
	}
}

/* Every length but the right one, also when the header says the same. Read without overrun. */
static void test_lengths(void **state)
{
	for (size_t bytes = 0; bytes < 2 * sizeof(struct die_message); bytes++) {
		uint8_t packet[2 * sizeof(struct die_message)] = { 0 };
		struct die_message m = good_die(), ret = { .header.pass = 99 };
		int want = bytes == sizeof(m) ? 0 : -EBADMSG;

		memcpy(packet, &m, sizeof(m));
		assert_int_equal(die_message_check(packet, bytes, &ret), want);
		m.header.size_bytes = (uint32_t)bytes;
		memcpy(packet, &m, sizeof(m));
		assert_int_equal(die_message_check(packet, bytes, &ret), want);
		assert_int_equal(ret.header.pass, want ? 99 : 7); /* written only on success */
	}
}

static void test_headers(void **state)
{
	struct die_message m = good_die();

	m.header.magic++;
	assert_int_equal(check(&m), -EBADMSG);
	m = good_die();
	m.header.version++;
	assert_int_equal(check(&m), -EPROTONOSUPPORT);
	m = good_die();
	m.header.kind = 4;
	assert_int_equal(check(&m), -EBADMSG);
	m.header.kind = DIE_SAMPLE_NOW; /* a request is no answer */
	assert_int_equal(check(&m), -EBADMSG);
}

#define REFUSED(make, field, value)                                                                \
	do {                                                                                       \
		struct die_message m_ = make();                                                    \
		m_.field = value;                                                                  \
		if (check(&m_) != -EBADMSG)                                                        \
			fail_msg("accepted: %s = %s", #field, #value);                             \
	} while (0)

#define REFUSED_TEXT(make, field, value)                                                           \
	do {                                                                                       \
		struct die_message m_ = make();                                                    \
		memcpy(m_.field, value, sizeof(value));                                            \
		if (check(&m_) != -EBADMSG)                                                        \
			fail_msg("accepted: %s = %s", #field, #value);                             \
	} while (0)

#define REFUSED_UNENDED(make, field)                                                               \
	do {                                                                                       \
		struct die_message m_ = make();                                                    \
		memset(m_.field, 'a', sizeof(m_.field));                                           \
		if (check(&m_) != -EBADMSG)                                                        \
			fail_msg("accepted: %s without an end", #field);                           \
	} while (0)

static void test_driver_lies(void **state)
{
	REFUSED(good_driver, driver.state, DIE_DRIVER_ERROR + 1);
	REFUSED(good_driver, driver.state, DIE_DRIVER_NO_DEVICE); /* with two dies */
	REFUSED(good_driver, driver.n_dies, 0);                   /* OK without a die */
	REFUSED(good_driver, driver.n_dies, -1);
	REFUSED(good_driver, driver.n_dies, DIE_MESSAGE_MAX_DIES + 1);
	REFUSED(good_driver, driver.driver_version, -1);
	REFUSED_TEXT(good_driver, driver.library_path, "/lib\n<1>forged log line");
	REFUSED_UNENDED(good_driver, driver.library_path);
	REFUSED_UNENDED(good_driver, driver.error_name);
}

static void test_die_lies(void **state)
{
	REFUSED(good_die, die.index, -1);
	REFUSED(good_die, die.index, 2);
	REFUSED(good_die, die.n_dies, 0);
	REFUSED(good_die, die.n_dies, DIE_MESSAGE_MAX_DIES + 1);
	REFUSED(good_die, die.free_bytes, 12 * GIB + 1);
	REFUSED(good_die, die.total_bytes, 0);
	REFUSED(good_die, die.own_context_bytes, 12 * GIB + 1);
	REFUSED(good_die, die.state, DIE_ERROR + 1);
	REFUSED(good_die, die.state, DIE_NO_CONTEXT); /* no context, no free bytes */
	REFUSED(good_die, die.board_group, -2);
	REFUSED(good_die, die.integrated, 2);
	REFUSED(good_die, die.integrated, -1);
	REFUSED_UNENDED(good_die, die.pci);
	REFUSED_UNENDED(good_die, die.name);
	REFUSED_UNENDED(good_die, die.error_name);
	REFUSED_TEXT(good_die, die.name, "Tesla\x1b[2J");
	REFUSED_TEXT(good_die, die.pci, "");
	REFUSED_TEXT(good_die, die.pci, "000:3b:00.0");
	REFUSED_TEXT(good_die, die.pci, "0000:3B:00.0");
	REFUSED_TEXT(good_die, die.pci, "0000:3b:00.");
	REFUSED_TEXT(good_die, die.pci, "0000:3b-00.0");
	REFUSED_TEXT(good_die, die.pci, "0000:3b:00:0");
	REFUSED_TEXT(good_die, die.pci, "0000:3b:00.00");
	REFUSED_TEXT(good_die, die.pci, "0000");
}

/* What no sample is needed for. */
static void test_die_without_sample(void **state)
{
	for (uint32_t s = DIE_NO_CONTEXT; s <= DIE_ERROR; s++) {
		struct die_message m = good_die();

		m.die.state = s;
		m.die.free_bytes = 0;
		m.die.own_context_bytes = 0;
		assert_int_equal(check(&m), 0);
		m.die.total_bytes = 0;
		assert_int_equal(check(&m), 0);
		m.die.own_context_bytes = 1;
		assert_int_equal(check(&m), -EBADMSG);
		m.die.own_context_bytes = 0;
		m.die.pci[0] = 0; /* unknown only where the driver would not say it */
		assert_int_equal(check(&m), s == DIE_ERROR ? 0 : -EBADMSG);
	}
}

static void test_pci_domains(void **state)
{
	struct die_message m = good_die();

	strcpy(m.die.pci, "10000:3b:00.0");
	assert_int_equal(check(&m), 0);
}

static void test_requests(void **state)
{
	struct die_request request = { .header = die_header_make(DIE_SAMPLE_NOW, 5) }, ret = { 0 };

	assert_int_equal(die_request_check(&request, sizeof(request), &ret), 0);
	assert_int_equal(ret.header.pass, 5);
	assert_int_equal(die_request_check(&request, sizeof(request) - 1, &ret), -EBADMSG);
	request.header.kind = DIE_KIND_DIE;
	assert_int_equal(die_request_check(&request, sizeof(request), &ret), -EBADMSG);
	request.header.kind = DIE_SAMPLE_NOW;
	request.header.version++;
	assert_int_equal(die_request_check(&request, sizeof(request), &ret), -EPROTONOSUPPORT);
}

static void test_left_out(void **state)
{
	static const int32_t bad[] = { -1, DIE_MESSAGE_MAX_DIES + 1, INT32_MAX, INT32_MIN };
	struct die_request request = { .header = die_header_make(DIE_SAMPLE_NOW, 5), .n_skip = 2 },
			   ret;

	strcpy(request.skip_pci[0], "0000:3b:00.0"); /* and "" */
	assert_int_equal(die_request_check(&request, sizeof(request), &ret), 0);
	assert_true(die_request_skips(&ret, "0000:3b:00.0"));
	assert_true(die_request_skips(&ret, ""));
	assert_false(die_request_skips(&ret, "0000:3c:00.0"));
	ret.n_skip = 0;
	assert_false(die_request_skips(&ret, "0000:3b:00.0"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		request.n_skip = bad[i];
		assert_int_equal(die_request_check(&request, sizeof(request), &ret), -EBADMSG);
	}
	request.n_skip = 1;
	memset(request.skip_pci[0], 'a', sizeof(request.skip_pci[0])); /* without an end */
	assert_int_equal(die_request_check(&request, sizeof(request), &ret), -EBADMSG);
}

static void test_what_ends_the_process(void **state)
{
	struct die_sample die = { .state = DIE_ERROR };

	assert_false(die_sample_ends_process(&die)); /* figures that cannot be */
	die.cuda_error = 719;
	assert_true(die_sample_ends_process(&die));
	die.cuda_error = DIE_CUDA_OUT_OF_MEMORY;
	assert_false(die_sample_ends_process(&die));
	die = (struct die_sample){ .state = DIE_NO_CONTEXT, .cuda_error = 46 };
	assert_false(die_sample_ends_process(&die));
}

static void test_own_context_added_back(void **state)
{
	struct die_sample die = good_die().die;

	assert_true(die_sample_free_bytes(&die) == 11 * GIB);
	die.own_context_bytes = 3 * GIB; /* cannot be more than is in use */
	assert_true(die_sample_free_bytes(&die) == 12 * GIB);
	die.own_context_bytes = 0;
	assert_true(die_sample_free_bytes(&die) == 10 * GIB);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_driver_lies),
		cmocka_unit_test(test_die_lies),
		cmocka_unit_test(test_die_without_sample),
		cmocka_unit_test(test_pci_domains),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_what_ends_the_process),
		cmocka_unit_test(test_own_context_added_back),
	};

	return cmocka_run_group_tests_name("die_message", tests, NULL, NULL);
}
