/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of a trace file. The agent's flight recorder and pnmem trace record write such files.
 * tools/man/pnmem-trace.5 describes the layout in words.
 *
 * A file is a head and then records to its end, each with its length, kind and a check word, in the
 * byte order of the machine that wrote it. Nothing points backwards or forwards, so a file can be
 * written and read as a stream, and a cut file can be read up to the cut. A kind gets new fields at
 * its end (a kind with a text gets none), and a new kind gets a new number. Schema records after
 * the head name every kind and field, so that a reader of another version can skip or show the
 * kinds that it does not know.
 */
#ifndef PNMEM_CORE_TRACE_FORMAT_H
#define PNMEM_CORE_TRACE_FORMAT_H

#include <stdint.h>

#include "pn_event.h"

#define TRACE_MAGIC   0x31525450454d4e50ull /* "PNMEPTR1" on disk, little endian */
#define TRACE_VERSION 1                     /* changes only if old readers cannot go on */

/* The start of the file. Texts are cut to fit and end in NUL. */
struct trace_head {
	uint64_t magic;
	uint32_t version;
	uint32_t head_bytes; /* of this struct, a multiple of 8: the first record follows */
	uint32_t check;      /* computed as for a record */
	uint32_t n_cpus;     /* online at the start */
	uint64_t mono_ns; /* CLOCK_MONOTONIC when the file was begun; record times are in it ... */
	uint64_t wall_ns; /* ... and CLOCK_REALTIME at that moment, since 1970 */
	uint64_t total_bytes; /* MemTotal */
	char agent[32];       /* "pnmemd 0.1.0": what wrote it */
	char kernel[64];      /* uname -r */
	char host[64];        /* its name */
};

/* Before each record. */
struct trace_record_head {
	uint16_t bytes; /* with this head; a multiple of 8 */
	uint16_t kind;  /* enum trace_kind */
	uint32_t check; /* trace_check() of the record with this field 0 */
	uint64_t ts_ns; /* CLOCK_MONOTONIC */
};

#define TRACE_RECORD_MAX  0xfff8u
#define TRACE_PAYLOAD_MAX (TRACE_RECORD_MAX - sizeof(struct trace_record_head))

/*
 * Records lie in the order in which the writer got them. Their times may be milliseconds out of
 * order.
 */
enum trace_kind {
	TRACE_PAD = 0,     /* never in a file: the unused end of a ring in memory */
	TRACE_SCHEMA = 1,  /* struct trace_schema and text */
	TRACE_CONFIG = 2,  /* struct trace_config */
	TRACE_NAME = 3,    /* struct trace_name and text */
	TRACE_EVENT = 4,   /* struct pn_event, of the kernel's hooks */
	TRACE_LOOK = 5,    /* struct trace_look: a published snapshot */
	TRACE_DIE = 6,     /* struct trace_die: a die in the snapshot that follows */
	TRACE_VERDICT = 7, /* struct trace_verdict, as an engine reported it */
	TRACE_VMSTAT = 8,  /* struct trace_vmstat */
	TRACE_DROPS = 9,   /* struct trace_drops: records that are missing so far */
	TRACE_MARK = 10,   /* struct trace_mark and text */
	TRACE_END = 11,    /* struct trace_end, the last record: the file is whole */
	TRACE_KIND_COUNT = 12,
};

/* Describes a kind. Text: its name, then " type field" for each field, separated by commas. */
struct trace_schema {
	uint32_t kind;
	uint32_t payload_bytes; /* of its fixed part */
};

/* The settings that the levels were derived with. */
struct trace_config {
	uint64_t host_reserve_bytes; /* 0: max(1 GiB, 15 % of the total) */
	uint64_t die_reserve_bytes;
	uint64_t hold_ns;
	double psi_full_reject_pct;
	uint32_t cgroup_level; /* 1: the cgroup counts */
	uint32_t mode;         /* PN_MODE_*: what woke the agent for stalls */
};

/* The name of a number in later records. A later name of the same number replaces it. */
enum trace_name_of {
	TRACE_NAME_CGROUP = 1, /* id is a cgroup v2 id; the text its path below the v2 mount */
	TRACE_NAME_VIEW = 2,   /* id is a view; the text its cgroup's path */
};

struct trace_name {
	uint32_t of; /* enum trace_name_of */
	uint32_t reserved;
	uint64_t id;
};

/*
 * A published snapshot: the fields of pn_mem_state and pn_mem_ext with the same names. The level is
 * derived from these and the dies.
 */
struct trace_look {
	uint32_t view; /* 0: the host alone; else as a TRACE_NAME_VIEW says */
	uint32_t level;
	uint32_t wanted_level;
	uint32_t reasons; /* PN_REASON_* */
	uint32_t mode;
	uint32_t n_dies; /* those of pn_mem_ext included */
	uint64_t host_total_bytes;
	uint64_t host_avail_bytes;
	uint64_t host_reserve_bytes;
	double host_psi_some_avg10;
	double host_psi_full_avg10;
	double live_psi_some_avg10;
	double live_psi_full_avg10;
	uint64_t psi_some_total_us;
	uint64_t psi_full_total_us;
	uint64_t cgroup_current_bytes;
	uint64_t cgroup_high_bytes;
	uint64_t cgroup_max_bytes;
	uint64_t cgroup_headroom_bytes;
	uint64_t cgroup_limit_bytes;
	double cgroup_psi_some_avg10;
	double cgroup_psi_full_avg10;
	uint64_t event_ns; /* kernel record or PSI trigger that caused the look, 0 none */
	uint64_t source_ns[5];
	uint8_t source_state[8];
	uint64_t stalls; /* since the agent's start, as the next four */
	uint64_t stall_ns;
	uint64_t oom_kills;
	uint64_t events;
	uint64_t event_drops;
};

struct trace_die {
	uint32_t view;
	uint32_t index; /* place in the snapshot */
	uint64_t free_bytes;
	uint64_t budget_bytes; /* 0: no such die any more */
	uint64_t used_bytes;
	uint64_t sample_ns;
	uint8_t uuid[16];
	char pci[16];
	uint32_t state; /* PN_SRC_* */
	uint32_t reserved;
};

/* The question. */
enum trace_ask {
	TRACE_ASK_REQUEST = 1,  /* a prefill: pn_admit_request, pn_admit */
	TRACE_ASK_LOAD = 2,     /* pn_admit_model_load */
	TRACE_ASK_LOAD_DIE = 3, /* pn_admit_model_load_die */
	TRACE_ASK_SPIKE = 4,    /* pn_admit_load_spike */
	TRACE_ASK_SLOT = 5,     /* a place in the batch, refused by its gate: bs_slot_acquire */
};

enum {
	TRACE_ASK_F_KV_Q4 = 1u << 0,
	TRACE_ASK_F_GPU_RESIDENT = 1u << 1,
};

/* A question and its pn_admit_result. */
struct trace_verdict {
	uint32_t view;
	uint32_t pid;     /* of the engine */
	uint32_t ask;     /* enum trace_ask */
	uint32_t flags;   /* TRACE_ASK_F_* */
	int32_t n_tokens; /* prompt or context asked for; 0 for the others */
	int32_t max_window;
	uint32_t verdict; /* pn_admit_verdict */
	uint32_t check;   /* pn_admit_check */
	int32_t fit_tokens;
	int32_t die_id;
	uint32_t level;
	uint32_t retry_after_ms;
	uint64_t need_bytes;
	uint64_t have_bytes;
	uint64_t reserve_bytes;
	double psi_full_pct;
	double psi_limit_pct;
	char comm[16]; /* of the engine */
};

/* /proc/vmstat: pages since boot. Their differences say what reclaim achieved. */
struct trace_vmstat {
	uint64_t scan_direct_pages;
	uint64_t steal_direct_pages;
	uint64_t scan_kswapd_pages;
	uint64_t steal_kswapd_pages;
	uint64_t fault_count;
	uint64_t major_fault_count;
	uint64_t scan_all_pages; /* with those for cgroup limits, which the first four leave out */
	uint64_t steal_all_pages;
};

/* Numbers of lost records since the recording began, by the place of the loss. */
struct trace_drops {
	uint64_t kernel_count;   /* kernel records for which their ring had no room */
	uint64_t recorder_count; /* records that the recorder or its reader had no room for */
	uint64_t verdict_count;  /* verdicts that an engine could not send */
	uint64_t old_count;      /* overwritten by newer records, in a flight recorder only */
};

/* What happened to the recording, the recorded command or a view. */
enum trace_mark_of {
	TRACE_MARK_DUMP = 1,  /* why the recorder was written out; text: the reason */
	TRACE_MARK_BEGIN = 2, /* value: pid of the command that is recorded; text: the command */
	TRACE_MARK_EXIT = 3,  /* value: the command's wait status */
	TRACE_MARK_TASK = 4,  /* value: pid that belongs to the command; text: its comm */
	/*
	 * value: a view whose last engine has left. It gets no more looks, and its number may be
	 * given to another view. text: its name, since the newest name of this number may belong to
	 * the next view.
	 */
	TRACE_MARK_VIEW_END = 5,
};

struct trace_mark {
	uint32_t of; /* enum trace_mark_of */
	uint32_t reserved;
	uint64_t value;
};

struct trace_end {
	uint64_t record_count; /* the records before this one, with the schemas */
};

/* A record in memory, decoded (core/trace_decode.h). */
struct trace_item {
	uint16_t kind;
	uint64_t ts_ns;
	const char *text; /* in the reader's buffer; "" where there is none */
	/* By kind. A kind that this program does not know has none of them. */
	union {
		struct trace_schema schema;
		struct trace_config config;
		struct trace_name name;
		struct pn_event event; /* ts_ns is the record's, comm ends in NUL */
		struct trace_look look;
		struct trace_die die;         /* pci ends in NUL */
		struct trace_verdict verdict; /* comm ends in NUL */
		struct trace_vmstat vmstat;
		struct trace_drops drops;
		struct trace_mark mark;
		struct trace_end end;
		unsigned char fixed[sizeof(struct trace_look)]; /* the largest */
	};
};

_Static_assert(sizeof(struct trace_head) == 208, "file layout");
_Static_assert(sizeof(struct trace_record_head) == 16, "file layout");
_Static_assert(sizeof(struct trace_config) == 40, "file layout");
_Static_assert(sizeof(struct trace_name) == 16, "file layout");
_Static_assert(sizeof(struct trace_look) == 248, "file layout");
_Static_assert(sizeof(struct trace_die) == 80, "file layout");
_Static_assert(sizeof(struct trace_verdict) == 104, "file layout");
_Static_assert(sizeof(struct trace_vmstat) == 64, "file layout");
_Static_assert(sizeof(struct trace_drops) == 32, "file layout");
_Static_assert(sizeof(struct trace_mark) == 16, "file layout");

#endif
