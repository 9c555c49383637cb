/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pnmem-dies: asks the CUDA driver how much memory each die has free, for the agent, which must
 * not call a driver itself (a call can block for good, and some errors only end with the process).
 * Options, privileges, and the loop that answers requests on descriptor 3; die_message.h is the
 * protocol. It never logs: what there is to say is in its messages and its exit status.
 */
#include <argp.h>
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dies/context_cost.h"
#include "dies/cuda.h"
#include "dies/die.h"
#include "host/clock.h"

__attribute__((visibility("default"))) const char *argp_program_version =
	"pnmem-dies " PNMEM_VERSION;

struct options {
	const char *library;
	const char *hold_pci; /* NULL: the sampler, else a holder (context_cost.h) */
};

static struct cuda cuda;
static struct die dies[DIE_MESSAGE_MAX_DIES];
static int n_dies;
static struct context_cost cost;

static const struct argp_option option_table[] = {
	{ "cuda-lib", 'c', "PATH", 0,
	  "Open this library, also where no kernel driver is seen (default: libcuda.so.1)", 0 },
	{ "hold", 'h', "PCI", OPTION_HIDDEN, "Hold a context on this die", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'c':
		options->library = arg;
		return 0;
	case 'h':
		options->hold_pci = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument: %s", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/*
 * Without capabilities the device files are all that is left. The user stays: the files may be
 * root's only, and an agent without CAP_KILL must be able to end us. Started by the agent we have
 * none anyway, nor a bounding set or a way to get one; this is for who is started by hand. A call
 * that hangs cannot see descriptor 3 close, hence the signal.
 */
static void drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	syscall(SYS_capset, &header, none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static bool fd_is_ours(void)
{
	int type = 0;
	socklen_t bytes = sizeof(type);

	return !getsockopt(DIE_MESSAGE_FD, SOL_SOCKET, SO_TYPE, &type, &bytes) &&
	       type == SOCK_SEQPACKET;
}

/* Without exit handlers: a driver's own may hang, and the kernel takes back contexts anyway. */
static _Noreturn void end(enum die_exit status)
{
	_exit(status);
}

static void send_message(const struct die_message *message)
{
	ssize_t n;

	do
		n = send(DIE_MESSAGE_FD, message, sizeof(*message), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		end(errno == EPIPE || errno == ECONNRESET ? DIE_EXIT_CLOSED : DIE_EXIT_SETUP);
}

static void open_driver(const struct options *options)
{
	struct die_message message = { .header = die_header_make(DIE_KIND_DRIVER, 0) };
	enum die_exit status;

	if (!options->library && !cuda_has_kernel_driver()) {
		message.driver.state = DIE_DRIVER_NONE;
		strcpy(message.driver.error_name, "no kernel driver");
		status = DIE_EXIT_NO_DRIVER;
	} else {
		status = cuda_open(options->library ? options->library : "libcuda.so.1", &cuda,
				   &message.driver);
	}
	if (!options->hold_pci)
		send_message(&message);
	if (status)
		end(status);
	n_dies = message.driver.n_dies;
	dies_identify(&cuda, dies, n_dies);
}

/*
 * Samples every die but those that the request leaves out, also after one of them has failed for
 * good; then that ends the process.
 */
static void run_pass(const struct die_request *request, const char *library)
{
	uint64_t pass = request->header.pass;
	struct die_message message;
	uint64_t start_ns = clock_now_ns();
	bool good = true;

	for (int i = 0; i < n_dies; i++) {
		if (die_request_skips(request, dies[i].identity.pci))
			continue;
		message = (struct die_message){ .header = die_header_make(DIE_KIND_DIE, pass) };
		if (!die_sample(&cuda, &dies[i], &message.die))
			good = false;
		send_message(&message);
		if (good)
			context_cost_start(&cost, &dies[i], &message.die, library);
	}
	message = (struct die_message){ .header = die_header_make(DIE_KIND_PASS_END, pass) };
	message.pass_end.duration_ns = clock_now_ns() - start_ns;
	send_message(&message);
	if (!good)
		end(DIE_EXIT_CUDA);
}

/* Takes all requests that wait; returns whether there was one, and the last one. */
static bool read_requests(struct die_request *ret)
{
	char packet[2 * sizeof(*ret)];
	bool any = false;
	ssize_t n;

	for (;;) {
		n = recv(DIE_MESSAGE_FD, packet, sizeof(packet), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return any;
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			end(DIE_EXIT_CLOSED);
		if (n < 0 || die_request_check(packet, (size_t)n, ret))
			end(DIE_EXIT_SETUP);
		any = true;
	}
}

static _Noreturn void serve(const char *library)
{
	struct die_request request;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = DIE_MESSAGE_FD, .events = POLLIN },
			{ .fd = cost.state == COST_IDLE ? -1 : cost.fd, .events = POLLIN },
		};

		if (poll(fds, 2, -1) < 0)
			continue; /* EINTR, or no memory for it: try again */
		if (fds[0].revents && read_requests(&request))
			run_pass(&request, library);
		if (fds[1].revents && !context_cost_continue(&cost, &cuda))
			end(DIE_EXIT_CUDA);
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.doc = "Samples GPU memory for pnmemd, which starts it; of no use by itself.",
	};
	struct options options = { 0 };

	argp_err_exit_status = DIE_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (!fd_is_ours()) {
		fprintf(stderr, "%s: descriptor %d is not the agent's socket\n",
			program_invocation_short_name, DIE_MESSAGE_FD);
		return DIE_EXIT_USAGE;
	}
	drop_privileges();
	if (cuda_prepare_environment())
		return DIE_EXIT_SETUP;
	open_driver(&options);
	if (options.hold_pci)
		end(context_cost_hold(&cuda, dies, n_dies, options.hold_pci));
	serve(options.library ? options.library : "libcuda.so.1");
}
