/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages between the agent and its die sampler, pnmem-dies, over a SOCK_SEQPACKET socketpair that
 * the sampler has as descriptor 3: one struct a packet, each of a fixed size, host byte order.
 * Pure: layout and checks. The merge judges the values of a sample, and another part decides when
 * to sample.
 *
 * The sampler says once what driver it found (DIE_KIND_DRIVER) and ends if there is nothing to
 * sample. Then each DIE_SAMPLE_NOW is answered by a pass: one DIE_KIND_DIE for each die, in the
 * order of their PCI ids, but those that the request leaves out, and DIE_KIND_PASS_END. Requests
 * that pile up during a pass are answered by one pass, which echoes the last of them and is as it
 * says: a pass number acknowledges all requests before it.
 */
#ifndef PNMEM_CORE_DIE_MESSAGE_H
#define PNMEM_CORE_DIE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIE_MESSAGE_MAGIC     0x44454950u /* "PIED" on the wire, little endian */
#define DIE_MESSAGE_VERSION   2
#define DIE_MESSAGE_FD        3 /* the sampler's end */
#define DIE_MESSAGE_MAX_DIES  64
#define DIE_MESSAGE_PCI_BYTES 16

/* The sampler's exit status: why it ended. */
enum die_exit {
	DIE_EXIT_CLOSED = 0,    /* the agent closed its end */
	DIE_EXIT_USAGE = 2,     /* bad command line, or descriptor 3 is no socket */
	DIE_EXIT_SETUP = 3,     /* no folder to keep CUDA MPS out with, or descriptor 3 failed */
	DIE_EXIT_NO_DRIVER = 4, /* no kernel driver, or no library; as DIE_DRIVER_NONE */
	DIE_EXIT_STUB = 5,      /* as DIE_DRIVER_STUB */
	DIE_EXIT_MISMATCH = 6,  /* as DIE_DRIVER_MISMATCH */
	DIE_EXIT_NO_DEVICE = 7, /* as DIE_DRIVER_NO_DEVICE */
	DIE_EXIT_CUDA = 8,      /* a CUDA error that only ends with the process: start another */
};

enum die_kind {
	DIE_KIND_DRIVER = 1,
	DIE_KIND_DIE = 2,
	DIE_KIND_PASS_END = 3,
	DIE_SAMPLE_NOW = 16, /* the agent's only request */
};

enum die_driver_state {
	DIE_DRIVER_OK = 0,
	DIE_DRIVER_NO_DEVICE = 1, /* a driver, and no GPU that it serves */
	DIE_DRIVER_NONE = 2,      /* no kernel driver, or no library to open */
	DIE_DRIVER_STUB = 3,      /* the toolkit's link-time stub, not a driver */
	DIE_DRIVER_MISMATCH = 4,  /* library and kernel driver are of different versions */
	DIE_DRIVER_ERROR = 5,     /* cu_result and error_name say what */
};

enum die_state {
	DIE_OK = 0,         /* free_bytes and total_bytes are a sample */
	DIE_NO_CONTEXT = 1, /* a context would take the die from an engine: exclusive, prohibited */
	DIE_MIG_PARENT = 2, /* divided by MIG: a process sees one instance, never the die */
	DIE_INTEGRATED = 3, /* its memory is the host's: MemAvailable says it */
	DIE_ERROR = 4,      /* cuda_error and error_name say what; not sampled */
};

/* CUDA's number for "out of memory", the only error that says something about the die's memory. */
#define DIE_CUDA_OUT_OF_MEMORY 2

struct die_header {
	uint32_t magic;
	uint16_t version;
	uint16_t kind;       /* enum die_kind */
	uint32_t size_bytes; /* of the whole packet */
	uint32_t reserved;
	uint64_t pass; /* echoed request; 0 in DIE_KIND_DRIVER */
};

struct die_driver {
	int32_t driver_version; /* of CUDA, as 13000; 0: unknown */
	int32_t n_dies;         /* 0..DIE_MESSAGE_MAX_DIES; above 0 only in DIE_DRIVER_OK */
	uint32_t state;         /* enum die_driver_state */
	int32_t cu_result;      /* CUresult of the call that failed, 0 none */
	char error_name[32];    /* its name, or what is wrong with the library; "" none */
	char library_path[192]; /* as the loader resolved it, cut if longer; "" none */
};

struct die_sample {
	int32_t index; /* by PCI order, 0..n_dies - 1 */
	int32_t n_dies;
	uint64_t sample_ns;         /* CLOCK_MONOTONIC just before the driver was asked */
	uint64_t free_bytes;        /* as cuMemGetInfo says; 0 unless DIE_OK */
	uint64_t total_bytes;       /* 0: unknown, never so in DIE_OK */
	uint64_t own_context_bytes; /* what the sampler itself keeps of it; 0: unknown or nothing */
	uint8_t uuid[16];           /* all 0: unknown */
	char pci[DIE_MESSAGE_PCI_BYTES]; /* "0000:3b:00.0"; "" only in DIE_ERROR */
	char name[64];
	int32_t compute_mode; /* CUDA's: 0 default, 2 prohibited, 3 exclusive process */
	int32_t integrated;   /* 0 or 1 */
	int32_t board_group;  /* the same number on the dies of one board, -1: alone on it */
	uint32_t state;       /* enum die_state */
	int32_t cuda_error;   /* CUresult behind DIE_ERROR or DIE_NO_CONTEXT, 0 none */
	int32_t reserved;
	char error_name[32]; /* its name, or what was wrong with the answer; "" none */
};

struct die_pass_end {
	uint64_t duration_ns;
};

struct die_message {
	struct die_header header;
	union {
		struct die_driver driver;
		struct die_sample die;
		struct die_pass_end pass_end;
	};
};

struct die_request {
	struct die_header header; /* DIE_SAMPLE_NOW; pass is echoed */
	int32_t n_skip;           /* 0..DIE_MESSAGE_MAX_DIES */
	int32_t reserved;
	/* Dies that are not to be touched, as in die_sample; "": those without a PCI id. */
	char skip_pci[DIE_MESSAGE_MAX_DIES][DIE_MESSAGE_PCI_BYTES];
};

_Static_assert(sizeof(struct die_header) == 24, "wire layout");
_Static_assert(sizeof(struct die_driver) == 240, "wire layout");
_Static_assert(sizeof(struct die_sample) == 192, "wire layout");
_Static_assert(sizeof(struct die_message) == 264, "wire layout");
_Static_assert(sizeof(struct die_request) == 1056, "wire layout");

/* The header of a whole die_message, or of a die_request for DIE_SAMPLE_NOW. */
struct die_header die_header_make(uint16_t kind, uint64_t pass);

/*
 * Checks a packet from the sampler. The sampler runs a driver's code, so the packet can hold any
 * bytes. In an accepted message every string ends inside its field and is printable ASCII, counts,
 * states and indices are in range, and a DIE_OK sample has 0 < total_bytes, free_bytes <=
 * total_bytes and own_context_bytes <= total_bytes. Returns 0 with *ret written; -EBADMSG (not
 * ours, or values that cannot be), -EPROTONOSUPPORT (another version: a sampler of another pnmem).
 */
int die_message_check(const void *packet, size_t bytes, struct die_message *ret);

/* The same for a request, in the sampler. */
int die_request_check(const void *packet, size_t bytes, struct die_request *ret);

/* Whether a request leaves out the die of this PCI id. */
bool die_request_skips(const struct die_request *request, const char *pci);

/*
 * Whether this is a CUDA error that only goes away with the process, which therefore ends after the
 * pass: not out of memory, which passes, nor figures that cannot be, which are no CUDA error.
 */
bool die_sample_ends_process(const struct die_sample *die);

/* Free memory of a DIE_OK sample as it would be without the sampler's own context. */
uint64_t die_sample_free_bytes(const struct die_sample *die);

#endif
