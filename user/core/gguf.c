/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walks a GGUF header front to back: keys, then tensors.
 *
 * A header is input from the network: every count is held against the bytes that are left before
 * it is believed, so that work is bounded by the header's real length, and that by the cursor's
 * limit. What the keys mean for memory is gguf_model.c's part.
 *
 * Format: ggml's docs/gguf.md. All numbers are little endian:
 *   "GGUF" u32 version, u64 tensors, u64 keys
 *   per key: string, u32 type, value; a string is a u64 length and bytes, an array u32 type, u64
 * count per tensor: string, u32 dimensions, u64 each, u32 type, u64 offset from the aligned data
 * start
 */
#include "core/gguf.h"

#include <errno.h>
#include <string.h>

#include "core/gguf_cursor.h"

/* Limits. Files have some 60 keys and, with experts unmerged, some 20,000 tensors. */
#define GGUF_MAX_KEYS    65536u
#define GGUF_MAX_TENSORS 1000000u
/* docs/gguf.md: a key has at most 2^16 - 1 bytes. */
#define GGUF_MAX_KEY_BYTES 65535u
/* docs/gguf.md says 64 for a tensor's name; forks have doubled it. */
#define GGUF_MAX_NAME_BYTES 1024u
#define GGUF_MAX_DIMS       4u /* GGML_MAX_DIMS */
/* No file is believed larger: so that sums over the 1000 parts of a model cannot wrap. */
#define GGUF_MAX_FILE_BYTES (1ull << 50)

/* Least bytes of a key (length, type, one byte of value) and of a tensor (no dimensions). */
#define GGUF_MIN_KEY_BYTES    13u
#define GGUF_MIN_TENSOR_BYTES 24u

#define GGUF_DEFAULT_ALIGNMENT 32u

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPE_COUNT,
};

/* Bytes of a value; 0: not fixed. */
static const uint8_t type_bytes[GGUF_TYPE_COUNT] = {
	[GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
	[GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
	[GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

/* ggml tensor types: elements and bytes of a block (ggml-common.h). Q8_1 is never stored. */
static const struct {
	uint16_t elems; /* 0: no such type, or one that is not known here */
	uint16_t bytes;
} tensor_blocks[] = {
	[0] = { 1, 4 },      /* F32 */
	[1] = { 1, 2 },      /* F16 */
	[2] = { 32, 18 },    /* Q4_0 */
	[3] = { 32, 20 },    /* Q4_1 */
	[6] = { 32, 22 },    /* Q5_0 */
	[7] = { 32, 24 },    /* Q5_1 */
	[8] = { 32, 34 },    /* Q8_0 */
	[10] = { 256, 84 },  /* Q2_K */
	[11] = { 256, 110 }, /* Q3_K */
	[12] = { 256, 144 }, /* Q4_K */
	[13] = { 256, 176 }, /* Q5_K */
	[14] = { 256, 210 }, /* Q6_K */
	[15] = { 256, 292 }, /* Q8_K */
	[16] = { 256, 66 },  /* IQ2_XXS */
	[17] = { 256, 74 },  /* IQ2_XS */
	[18] = { 256, 98 },  /* IQ3_XXS */
	[19] = { 256, 50 },  /* IQ1_S */
	[20] = { 32, 18 },   /* IQ4_NL */
	[21] = { 256, 110 }, /* IQ3_S */
	[22] = { 256, 82 },  /* IQ2_S */
	[23] = { 256, 136 }, /* IQ4_XS */
	[24] = { 1, 1 },     /* I8 */
	[25] = { 1, 2 },     /* I16 */
	[26] = { 1, 4 },     /* I32 */
	[27] = { 1, 8 },     /* I64 */
	[28] = { 1, 8 },     /* F64 */
	[29] = { 256, 56 },  /* IQ1_M */
	[30] = { 1, 2 },     /* BF16 */
	[34] = { 256, 54 },  /* TQ1_0 */
	[35] = { 256, 66 },  /* TQ2_0 */
	[39] = { 32, 17 },   /* MXFP4 */
	[40] = { 64, 36 },   /* NVFP4 */
};

/* After "ARCH."; the order is that of enum gguf_key. */
static const char *const key_names[GGUF_KEY_COUNT] = {
	[GGUF_KEY_BLOCK_COUNT] = "block_count",
	[GGUF_KEY_CONTEXT_LENGTH] = "context_length",
	[GGUF_KEY_EMBEDDING_LENGTH] = "embedding_length",
	[GGUF_KEY_KEY_LENGTH] = "attention.key_length",
	[GGUF_KEY_VALUE_LENGTH] = "attention.value_length",
	[GGUF_KEY_FULL_ATTENTION_INTERVAL] = "full_attention_interval",
	[GGUF_KEY_NEXTN_LAYERS] = "nextn_predict_layers",
	[GGUF_KEY_SSM_CONV_KERNEL] = "ssm.conv_kernel",
	[GGUF_KEY_SSM_INNER_SIZE] = "ssm.inner_size",
	[GGUF_KEY_SSM_STATE_SIZE] = "ssm.state_size",
	[GGUF_KEY_SSM_GROUP_COUNT] = "ssm.group_count",
	[GGUF_KEY_WKV_HEAD_SIZE] = "wkv.head_size",
	[GGUF_KEY_SHORTCONV_L_CACHE] = "shortconv.l_cache",
	[GGUF_KEY_KDA_HEAD_DIM] = "kda.head_dim",
};

static int read_key(struct gguf_cursor *c, char *buf, size_t buf_bytes, uint32_t *ret_type)
{
	uint64_t type;
	int r = cursor_string(c, GGUF_MAX_KEY_BYTES, "key longer than 65535 bytes", buf, buf_bytes);

	if (!r)
		r = cursor_number(c, 4, &type);
	if (r)
		return r;
	if (type >= GGUF_TYPE_COUNT)
		return cursor_fail(c, -EBADMSG, "unknown value type");
	*ret_type = type;
	return 0;
}

/* An array's element type and count, held against the bytes that are left. */
static int read_array_head(struct gguf_cursor *c, uint32_t *ret_type, uint64_t *ret_count)
{
	uint64_t type, count, bytes;
	int r = cursor_number(c, 4, &type);

	if (!r)
		r = cursor_number(c, 8, &count);
	if (r)
		return r;
	if (type == GGUF_ARRAY)
		return cursor_fail(c, -EBADMSG, "array of arrays");
	if (type >= GGUF_TYPE_COUNT)
		return cursor_fail(c, -EBADMSG, "unknown array element type");
	if (__builtin_mul_overflow(count, type == GGUF_STRING ? 8 : type_bytes[type], &bytes))
		bytes = UINT64_MAX;
	r = cursor_need(c, bytes);
	if (r)
		return r;
	*ret_type = type;
	*ret_count = count;
	return 0;
}

static int skip_string(struct gguf_cursor *c)
{
	uint64_t len;
	int r = cursor_length(c, UINT64_MAX, NULL, &len);

	return r ? r : cursor_skip(c, len);
}

static int skip_value(struct gguf_cursor *c, uint32_t type)
{
	uint64_t count;
	int r;

	if (type == GGUF_STRING)
		return skip_string(c);
	if (type != GGUF_ARRAY)
		return cursor_skip(c, type_bytes[type]);
	r = read_array_head(c, &type, &count);
	if (r)
		return r;
	if (type != GGUF_STRING)
		return cursor_skip(c, count * type_bytes[type]);
	while (!r && count--)
		r = skip_string(c);
	return r;
}

/* A whole number of any width that is not negative; bool counts as 0 or 1. */
static int read_whole(struct gguf_cursor *c, uint32_t type, uint64_t *ret)
{
	bool is_signed =
		type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
	uint64_t v;
	int r;

	if (type == GGUF_F32 || type == GGUF_F64 || !type_bytes[type])
		return cursor_fail(c, -EBADMSG, "key is not a whole number");
	r = cursor_number(c, type_bytes[type], &v);
	if (r)
		return r;
	if (is_signed && v >> (8 * type_bytes[type] - 1))
		return cursor_fail(c, -EBADMSG, "negative number");
	*ret = v;
	return 0;
}

static int read_number_key(struct gguf_cursor *c, uint32_t type, struct gguf_number *number)
{
	if (number->seen)
		return cursor_fail(c, -EEXIST, "key given twice");
	number->seen = true;
	return read_whole(c, type, &number->v);
}

static int read_per_layer_key(struct gguf_cursor *c, uint32_t type, struct gguf_per_layer *list)
{
	uint64_t count = 1, v;
	int r;

	if (list->seen)
		return cursor_fail(c, -EEXIST, "key given twice");
	list->seen = true;
	if (type == GGUF_ARRAY) {
		r = read_array_head(c, &type, &count);
		if (r)
			return r;
		if (!count || count > PN_MODEL_MAX_LAYERS)
			return cursor_fail(c, -EFBIG, "per-layer array of 0 or over 512 elements");
		list->n = count;
	}
	for (uint64_t i = 0; i < count; i++) {
		r = read_whole(c, type, &v);
		if (r)
			return r;
		if (v > PN_MODEL_MAX_DIM)
			return cursor_fail(c, -EINVAL, "implausible number of heads");
		list->v[i] = v;
	}
	return 0;
}

static int read_arch_key(struct gguf_cursor *c, const char *name, uint32_t type,
			 struct gguf_info *info)
{
	if (!strcmp(name, "attention.head_count"))
		return read_per_layer_key(c, type, &info->heads);
	if (!strcmp(name, "attention.head_count_kv"))
		return read_per_layer_key(c, type, &info->kv_heads);
	if (!strcmp(name, "attention.recurrent_layers"))
		return read_per_layer_key(c, type, &info->recurrent);
	for (unsigned i = 0; i < GGUF_KEY_COUNT; i++) {
		if (!strcmp(name, key_names[i]))
			return read_number_key(c, type, &info->numbers[i]);
	}
	return skip_value(c, type);
}

/* Goes over the keys until general.architecture, which every file but a later part has. */
static int find_arch(struct gguf_cursor *c, uint64_t n_keys, struct gguf_info *info)
{
	uint64_t start = c->pos;
	char key[64];
	uint32_t type;
	int r = 0;

	while (!r && n_keys-- && !info->arch[0]) {
		r = read_key(c, key, sizeof(key), &type);
		if (r)
			return r;
		if (strcmp(key, "general.architecture")) {
			r = skip_value(c, type);
			continue;
		}
		if (type != GGUF_STRING)
			return cursor_fail(c, -EBADMSG, "general.architecture is not a string");
		r = cursor_string(c, sizeof(info->arch) - 1, "architecture name over 31 bytes",
				  info->arch, sizeof(info->arch));
	}
	if (!r)
		c->pos = start;
	return r;
}

static int read_keys(struct gguf_cursor *c, uint64_t n_keys, bool first_file,
		     struct gguf_info *info, struct gguf_number *ret_alignment)
{
	size_t arch_len = strlen(info->arch);
	bool arch_seen = false;
	char key[128];
	uint32_t type;
	int r = 0;

	while (!r && n_keys--) {
		r = read_key(c, key, sizeof(key), &type);
		if (r)
			return r;
		if (!strcmp(key, "general.alignment")) {
			r = read_number_key(c, type, ret_alignment);
		} else if (!strcmp(key, "split.no")) {
			r = read_number_key(c, type, &info->split_no);
		} else if (!strcmp(key, "split.count")) {
			r = read_number_key(c, type, &info->split_count);
		} else if (!strcmp(key, "split.tensors.count")) {
			r = read_number_key(c, type, &info->split_tensors);
		} else if (first_file && !strcmp(key, "general.architecture")) {
			if (arch_seen)
				return cursor_fail(c, -EEXIST, "key given twice");
			arch_seen = true;
			r = skip_value(c, type);
		} else if (first_file && arch_len && !strncmp(key, info->arch, arch_len) &&
			   key[arch_len] == '.') {
			r = read_arch_key(c, key + arch_len + 1, type, info);
		} else {
			r = skip_value(c, type);
		}
	}
	return r;
}

/* Where a tensor's bytes are counted: "blk.N." is layer N, token_embd the input. */
static int tensor_account(struct gguf_cursor *c, const char *name, struct gguf_info *info,
			  uint64_t **ret)
{
	unsigned layer = 0;
	const char *s = name + 4;

	if (!strncmp(name, "token_embd", 10)) {
		*ret = &info->input_weights_bytes;
		return 0;
	}
	*ret = &info->output_weights_bytes;
	if (strncmp(name, "blk.", 4) || *s < '0' || *s > '9')
		return 0;
	for (; *s >= '0' && *s <= '9'; s++) {
		layer = 10 * layer + (unsigned)(*s - '0');
		if (layer >= PN_MODEL_MAX_LAYERS)
			return cursor_fail(c, -EFBIG, "tensor of a layer over 511");
	}
	if (*s == '.')
		*ret = &info->layer_weights_bytes[layer];
	return 0;
}

struct gguf_tensor {
	uint64_t *account; /* where its bytes are counted */
	uint64_t bytes;    /* 0 with !known: to be derived */
	uint64_t offset;
	bool known;
};

static int read_tensor(struct gguf_cursor *c, uint64_t alignment, struct gguf_info *info,
		       struct gguf_tensor *ret)
{
	uint64_t n_dims, type, row = 1, elems = 1, dim;
	char name[64];
	int r = cursor_string(c, GGUF_MAX_NAME_BYTES, "tensor name longer than 1024 bytes", name,
			      sizeof(name));

	if (!r)
		r = tensor_account(c, name, info, &ret->account);
	if (!r)
		r = cursor_number(c, 4, &n_dims);
	if (r)
		return r;
	if (n_dims > GGUF_MAX_DIMS)
		return cursor_fail(c, -EBADMSG, "tensor of more than 4 dimensions");
	for (unsigned i = 0; i < n_dims; i++) {
		r = cursor_number(c, 8, &dim);
		if (r)
			return r;
		if (__builtin_mul_overflow(elems, dim, &elems) || elems > GGUF_MAX_FILE_BYTES)
			return cursor_fail(c, -EBADMSG, "implausibly large tensor");
		if (i == 0)
			row = dim;
	}
	r = cursor_number(c, 4, &type);
	if (!r)
		r = cursor_number(c, 8, &ret->offset);
	if (r)
		return r;
	if (ret->offset > GGUF_MAX_FILE_BYTES || ret->offset % alignment)
		return cursor_fail(c, -EBADMSG, "tensor offset implausible or not aligned");
	ret->known = type < sizeof(tensor_blocks) / sizeof(tensor_blocks[0]) &&
		     tensor_blocks[type].elems;
	if (!ret->known)
		return 0;
	if (row % tensor_blocks[type].elems)
		return cursor_fail(c, -EBADMSG, "tensor row is not whole blocks of its type");
	/* At most 2^50 elements of 8 bytes. */
	ret->bytes = elems / tensor_blocks[type].elems * tensor_blocks[type].bytes;
	return 0;
}

/*
 * Tensors lie in the order of their infos, each padded to the alignment: so one of an unknown
 * type reaches to the next one's offset, and the last to the end of the file.
 */
static int read_tensors(struct gguf_cursor *c, uint64_t alignment, struct gguf_info *info)
{
	struct gguf_tensor tensor = { .known = true };
	uint64_t end = 0, total = 0, data;
	int r;

	for (uint64_t i = 0; i < info->n_tensors; i++) {
		struct gguf_tensor before = tensor;

		tensor = (struct gguf_tensor){ 0 };
		r = read_tensor(c, alignment, info, &tensor);
		if (r)
			return r;
		if (!before.known) {
			if (tensor.offset <= before.offset)
				return cursor_fail(
					c, -ENOTSUP,
					"unknown tensor type, and no offset to tell its size");
			*before.account += tensor.offset - before.offset;
			total += tensor.offset - before.offset;
		}
		*tensor.account += tensor.bytes;
		total += tensor.bytes;
		if (total > c->source->size_bytes)
			return cursor_fail(c, -ENODATA, "file is shorter than its tensors");
		if (tensor.offset + tensor.bytes > end)
			end = tensor.offset + tensor.bytes;
	}
	data = (c->pos + alignment - 1) / alignment * alignment;
	if (info->n_tensors && (data > c->source->size_bytes || end > c->source->size_bytes - data))
		return cursor_fail(c, -ENODATA, "file is shorter than its tensors");
	if (!tensor.known) {
		*tensor.account += c->source->size_bytes - data - tensor.offset;
		total += c->source->size_bytes - data - tensor.offset;
	}
	if (info->n_tensors && total > c->source->size_bytes - data)
		return cursor_fail(c, -EBADMSG, "tensors overlap");
	return 0;
}

int gguf_read(const struct gguf_source *source, unsigned file_no, struct gguf_info *info,
	      pn_model_error *ret_err)
{
	struct gguf_number alignment = { .seen = false };
	struct gguf_cursor c;
	uint64_t version, n_keys;
	char magic[4];
	int r;

	*ret_err = (pn_model_error){ .file_no = file_no };
	cursor_open(&c, source, ret_err);

	if (source->size_bytes > GGUF_MAX_FILE_BYTES)
		return cursor_fail(&c, -EFBIG, "file larger than 1 PiB");
	r = cursor_take(&c, magic, sizeof(magic));
	if (r)
		return r;
	if (memcmp(magic, "GGUF", 4))
		return cursor_fail(&c, -EBADMSG, "not a GGUF file");
	r = cursor_number(&c, 4, &version);
	if (!r)
		r = cursor_number(&c, 8, &info->n_tensors);
	if (!r)
		r = cursor_number(&c, 8, &n_keys);
	if (r)
		return r;
	if (version && !(version & 0xffff))
		return cursor_fail(&c, -ENOTSUP, "big-endian file");
	if (version != 2 && version != 3)
		return cursor_fail(&c, -ENOTSUP, "GGUF version other than 2 and 3");
	info->version = version;
	if (n_keys > GGUF_MAX_KEYS)
		return cursor_fail(&c, -EFBIG, "more than 65536 keys");
	if (info->n_tensors > GGUF_MAX_TENSORS)
		return cursor_fail(&c, -EFBIG, "more than 1000000 tensors");
	r = cursor_need(&c, n_keys * GGUF_MIN_KEY_BYTES + info->n_tensors * GGUF_MIN_TENSOR_BYTES);
	if (r)
		return r;

	info->split_no = info->split_count = info->split_tensors = alignment;
	if (file_no == 1)
		r = find_arch(&c, n_keys, info);
	if (!r)
		r = read_keys(&c, n_keys, file_no == 1, info, &alignment);
	if (r)
		return r;
	if (!alignment.seen)
		alignment.v = GGUF_DEFAULT_ALIGNMENT;
	if (!alignment.v || alignment.v > UINT32_MAX || (alignment.v & (alignment.v - 1)))
		return cursor_fail(&c, -EBADMSG, "alignment is not a power of two");
	return read_tensors(&c, alignment.v, info);
}
