# SPDX-License-Identifier: BSD-2-Clause
#
# One Makefile, not recursive; everything it makes lies under build/. `make help` prints these lines:
#   make                    builds what is shipped
#   sudo make run           installs what is missing, builds, starts the agent, shows the live snapshot
#   sudo make check         installs what is missing, builds, runs every test that this machine can run
#   sudo make bench         runs the measurements, each beside its baseline
#   make install            installs below PREFIX (/usr/local), in DESTDIR
#   make bundle             makes build/bundle: the programs for a Linux without the libraries they need
#   sudo make check-kernels runs the host tests on Debian's kernels from 5.10 on, under qemu
#   sudo make soak          runs what make check shortens at its whole length: nine minutes
#   make compile_commands.json   tells an editor how each file is compiled
#   make clean              removes build/
#   V=1 shows commands, WERROR=1 makes warnings errors, CFLAGS and LDFLAGS are appended.

B       ?= build
BUNDLE  ?= $(B)/bundle
PREFIX  ?= /usr/local
VERSION := 0.1.0

CC      = gcc
CLANG   ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool /usr/local/sbin/bpftool) bpftool)
PKG     := pkg-config

ifeq ($(V),1)
Q :=
else
Q := @
endif
say = $(if $(Q),@printf '  %-8s %s\n' '$(1)' '$(2)')

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	    -Wvla -Wformat=2 -Wno-unused-parameter $(if $(filter 1,$(WERROR)),-Werror)
# _GNU_SOURCE: gnu11 on Linux; hidden visibility: only PN_API symbols leave libpnmem.so.
base_cflags := -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -pthread $(warnings) -D_GNU_SOURCE \
	       -DPNMEM_VERSION='"$(VERSION)"' -Iinclude -Iuser -Itests/host -MMD -MP
# cmocka 2 warns on calls that cmocka 1 has no other names for.
base_cflags += -DCMOCKA_DISABLE_DEPRECATION_WARNINGS
lib_libs   := -pthread -lm
# Without libseccomp the agent has no system call filter, and says so.
seccomp_libs := $(shell $(PKG) --libs libseccomp 2>/dev/null)
agent_libs := $(shell $(PKG) --libs libbpf libsystemd 2>/dev/null) $(seccomp_libs) $(lib_libs)
cli_libs   := $(shell $(PKG) --libs jansson 2>/dev/null) $(lib_libs)
engine_libs := $(shell $(PKG) --libs libmicrohttpd jansson 2>/dev/null) $(lib_libs)

core_src  := $(wildcard user/core/*.c)
host_src  := $(wildcard user/host/*.c)
lib_src   := $(wildcard user/lib/*.c)
agent_src := $(wildcard user/agent/*.c)
cli_src   := $(wildcard user/cli/*.c)
engine_src := $(wildcard tools/engine/*.c)
dies_src  := $(wildcard user/dies/*.c)
bpf_src   := $(wildcard bpf/*.bpf.c)
headers   := $(filter-out include/pn_event.h,$(wildcard include/*.h))

unit_tests := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))
host_tests := $(patsubst tests/host/%.c,$(B)/tests/host/%,$(wildcard tests/host/test_*.c))
fuzzers    := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
tools      := $(patsubst tools/%.c,$(B)/tools/%,$(wildcard tools/*.c)) $(B)/tools/engine \
	      $(B)/tools/bench $(B)/tools/gpu-probe

objs = $(patsubst %.c,$(B)/$(1)/%.o,$(2))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all run check soak check-kernels bundle bench install clean tests unit-tests help \
	compile_commands.json

all: $(B)/pnmemd $(B)/pnmem $(B)/pnmem-dies $(B)/libpnmem.so $(B)/libpnmem.a $(B)/tools/pressure

# ---- C objects, one rule per sanitizer variant --------------------------------------------------
# asan and tsan exist for core, host, lib and the unit tests. -Wno-tsan: gcc warns on fences.
flags_obj  :=
flags_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
flags_tsan := -fsanitize=thread -Wno-tsan -DPN_TSAN=1

define variant
$(B)/$(1)/%.o: %.c
	$$(call say,CC,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(base_cflags) $$(flags_$(1)) $$(CFLAGS) -c $$< -o $$@

$(B)/$(1)/tests/unit/%: $(B)/$(1)/tests/unit/%.o $(call objs,$(1),$(core_src) $(host_src) $(lib_src))
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $(flags_$(1)) $$^ $$(LDFLAGS) -lcmocka $(lib_libs) -o $$@
endef
$(foreach v,obj asan tsan,$(eval $(call variant,$(v))))

# ---- BPF: every subject linked into one object, one skeleton ------------------------------------
# But cuda, which is loaded only where there is a GPU driver.
# The asm/ headers of <linux/types.h> live in the multiarch folder.
multiarch := $(shell $(CC) -print-multiarch 2>/dev/null)
bpf_cflags := -g -O2 -target bpf -mcpu=v3 -Wall -Wextra -Wno-unused-parameter \
	      -Wno-missing-declarations $(if $(filter 1,$(WERROR)),-Werror) \
	      -D__TARGET_ARCH_$(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m))) \
	      -Iinclude -Ibpf -idirafter /usr/include/$(multiarch) -MMD -MP

$(B)/bpf/%.bpf.o: bpf/%.bpf.c
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(bpf_cflags) -c $< -o $@

$(B)/bpf/pnmem.linked.o: $(filter-out %/cuda.bpf.o,$(bpf_src:%.c=$(B)/%.o))
	$(call say,BPFLINK,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(B)/bpf/pnmem.skel.h: $(B)/bpf/pnmem.linked.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name pnmem_bpf > $@

$(B)/bpf/cuda.skel.h: $(B)/bpf/cuda.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name cuda_bpf > $@

$(foreach v,obj asan,$(B)/$(v)/user/agent/filter.o): base_cflags += $(if $(seccomp_libs),-DPNMEM_SECCOMP=1)
$(foreach v,obj asan,$(B)/$(v)/user/agent/cuda_hooks.o): $(B)/bpf/cuda.skel.h
$(foreach v,obj asan,$(B)/$(v)/user/agent/cuda_hooks.o): base_cflags += -I$(B)/bpf
$(foreach v,obj asan,$(B)/$(v)/user/agent/hooks.o): $(B)/bpf/pnmem.skel.h
$(foreach v,obj asan,$(B)/$(v)/user/agent/hooks.o): base_cflags += -I$(B)/bpf

# ---- what is shipped ----------------------------------------------------------------------------
lib_objs := $(call objs,obj,$(core_src) $(host_src) $(lib_src))

$(B)/libpnmem.so: $(lib_objs) user/lib/libpnmem.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libpnmem.so.0 -Wl,--version-script=user/lib/libpnmem.map \
		-Wl,-z,defs $(lib_objs) $(LDFLAGS) $(lib_libs) -o $@
	@ln -sf libpnmem.so $(B)/libpnmem.so.0

# One object with every internal name made local, so that a static engine sees pn_ and bs_ only.
$(B)/libpnmem.a: $(lib_objs)
	$(call say,AR,$@)
	$(Q)$(LD) -r $^ -o $(B)/libpnmem.o
	$(Q)objcopy --localize-hidden $(B)/libpnmem.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/libpnmem.o

$(B)/pnmemd: $(call objs,obj,$(agent_src) $(core_src) $(host_src))
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) $(agent_libs) -o $@

# Not libpnmem.a, in which the names of core are local: what reads trace files needs those.
$(B)/pnmem: $(call objs,obj,$(cli_src)) $(lib_objs)
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) $(cli_libs) -o $@

# The page of pnmem trace export --html, as strings.
$(B)/gen/trace_page.inc: $(addprefix user/cli/trace_page,.html .js _use.js)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)for kind in html js; do \
		echo "static const char page_$$kind[] ="; \
		cat user/cli/trace_page*.$$kind | \
			sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/'; \
		echo ';'; \
	done > $@

$(B)/obj/user/cli/trace_html.o: $(B)/gen/trace_page.inc
$(B)/obj/user/cli/trace_html.o: base_cflags += -I$(B)/gen

# The die sampler opens libcuda while it runs: it links libc only.
$(B)/pnmem-dies: $(call objs,obj,$(dies_src) user/core/die_message.c)
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) -o $@

# ---- tests, fuzzers, tools ----------------------------------------------------------------------
$(B)/tests/unit/%: $(B)/obj/tests/unit/%
	@mkdir -p $(@D)
	@ln -sf ../../obj/tests/unit/$* $@

# Host tests may look inside the agent (all but its main) and use the library.
$(B)/tests/host/%: $(B)/obj/tests/host/%.o $(call objs,obj,$(wildcard tests/host/lib/*.c)) \
		   $(call objs,obj,tests/cuda/fake_cuda.c) \
		   $(call objs,obj,$(filter-out user/agent/main.c,$(agent_src))) $(lib_objs)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) -lcmocka $(agent_libs) $(cli_libs) -o $@

# A scripted die sampler for test_agent_dies, something to probe for test_agent_cuda, and a service
# for test_pressure_watch.
tests: $(B)/tests/host/fake_dies $(B)/tests/host/fake/libcuda.so.1 $(B)/tests/host/sd_event_program

$(B)/tests/host/sd_event_program: $(B)/obj/tests/host/sd_event_program.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) -o $@

$(B)/tests/host/fake_dies: $(B)/obj/tests/host/fake_dies.o $(call objs,obj,user/core/die_message.c)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) -o $@

$(B)/tests/host/fake/libcuda.so.1: $(B)/obj/tests/host/fake_libcuda.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,libcuda.so.1 $^ $(LDFLAGS) -o $@

$(B)/tests/json_check: $(B)/obj/tests/json_check.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) $(cli_libs) -o $@

# Writes trace files of any length.
$(B)/tests/trace_make: $(call objs,obj,tests/trace_make.c $(core_src))
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) $(lib_libs) -o $@

$(B)/tests/trace_event_check: $(call objs,obj,tests/trace_event_check.c $(core_src))
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) $(cli_libs) -o $@

$(B)/tests/png_check: $(call objs,obj,tests/png_check.c)
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) -lz -o $@

$(B)/fuzz/%: tests/fuzz/%.c $(core_src) $(host_src)
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -MMD -MP,$(base_cflags)) -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all $(filter %.c,$^) $(lib_libs) -o $@

$(B)/fuzz/fuzz_trace_story: $(addprefix user/cli/trace_,story.c refusals.c stallers.c names.c views.c)
$(B)/fuzz/fuzz_trace_export: $(addprefix user/cli/trace_,perfetto.c tracks.c timeline.c html.c \
			       words.c report_words.c names.c views.c) user/cli/format.c \
			     $(B)/gen/trace_page.inc
$(B)/fuzz/fuzz_trace_export: base_cflags += -I$(B)/gen

# The agent's message handler, with the agent behind it.
served_src := $(filter-out user/agent/main.c,$(agent_src)) tests/host/lib/made_host.c
$(B)/fuzz/fuzz_serve: tests/fuzz/fuzz_serve.c $(served_src) $(core_src) $(host_src) \
		      $(B)/bpf/pnmem.skel.h $(B)/bpf/cuda.skel.h
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -MMD -MP,$(base_cflags)) -I$(B)/bpf -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all $< $(served_src) $(core_src) $(host_src) $(agent_libs) -o $@

# A running agent under AddressSanitizer, and who sends it anything.
$(B)/asan/pnmemd: $(call objs,asan,$(agent_src) $(core_src) $(host_src))
	$(call say,LD,$@)
	$(Q)$(CC) $(flags_asan) $^ $(LDFLAGS) $(agent_libs) -o $@

$(B)/tests/live_fuzz: $(call objs,obj,tests/host/live_fuzz.c tests/host/lib/agent_proc.c \
		      tests/host/lib/raw_client.c tests/host/lib/made_host.c user/core/proto.c user/core/budget.c)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) -lcmocka -o $@

$(B)/tools/%: $(B)/obj/tools/%.o $(B)/libpnmem.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) $(cli_libs) -o $@

$(B)/tools/pressure: $(call objs,obj,tests/host/lib/pressure.c)

# Its baselines need what is inside: the agent's hooks, the page's writer.
$(B)/tools/bench: $(call objs,obj,$(wildcard tools/bench/*.c) tests/host/lib/pressure.c \
		  tests/host/lib/agent_proc.c tests/cuda/fake_cuda.c user/agent/hooks.c \
		  user/agent/hooks_why.c user/agent/cuda_hooks.c user/agent/uprobe.c) $(lib_objs)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) $(agent_libs) $(cli_libs) -o $@

$(B)/tools/engine: $(call objs,obj,$(engine_src)) $(B)/libpnmem.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) $(engine_libs) -o $@

# Checks pnmem where there is a GPU; the agent's reading of ELF symbols is compared with the driver's.
$(B)/tools/gpu-probe: $(call objs,obj,$(wildcard tools/gpu/*.c) user/host/elf_symbols.c) \
		      $(B)/libpnmem.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $^ $(LDFLAGS) $(lib_libs) -o $@

# The stand-in for NVIDIA's driver library, and what tests script it with.
fake_cuda_src := $(wildcard tests/cuda/libcuda_*.c) tests/cuda/fake_cuda.c
fake_cuda     := $(addprefix $(B)/tests/,libcuda.so.1 fake-cuda)
$(B)/tests/libcuda.so.1: $(call objs,obj,$(fake_cuda_src))
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs $^ $(LDFLAGS) -pthread -o $@

$(B)/tests/fake-cuda: $(call objs,obj,$(addprefix tests/cuda/,fake_cuda_main.c fake_cuda.c \
					  libcuda_state.c))
	$(call say,LD,$@)
	$(Q)$(CC) $^ $(LDFLAGS) -pthread -o $@

unit-tests: $(unit_tests)

tests: all $(fake_cuda) $(unit_tests) $(host_tests) $(fuzzers) $(tools) $(B)/tests/json_check \
       $(B)/asan/pnmemd $(B)/tests/live_fuzz $(B)/tests/trace_make \
       $(B)/tests/trace_event_check $(B)/tests/png_check \
       $(patsubst $(B)/tests/%,$(B)/asan/tests/%,$(unit_tests)) \
       $(patsubst $(B)/tests/%,$(B)/tsan/tests/%,$(unit_tests))

# ---- the two commands, and what else people call ------------------------------------------------
# Packages first, then a second make: pkg-config's answers are needed when the rules are read.
run:
	$(Q)tools/deps.sh
	$(Q)$(MAKE) --no-print-directory all
	$(Q)exec tools/run.sh $(B)

# CHECK_KERNELS=1: the kernel matrix too, under the same closing line.
check:
	$(Q)tools/deps.sh test optional $(if $(CHECK_KERNELS),vm)
	$(Q)$(MAKE) --no-print-directory tests WERROR=1
	$(Q)tests/check $(B)

soak:
	$(Q)tools/deps.sh test
	$(Q)$(MAKE) --no-print-directory all $(B)/tests/host/test_restart \
		$(B)/tests/host/test_replace WERROR=1
	$(Q)tests/soak.sh $(B)

check-kernels:
	$(Q)tools/deps.sh test vm
	$(Q)$(MAKE) --no-print-directory all $(host_tests) WERROR=1
	$(Q)BUILD=$(B) tests/vm/kernels.sh

bundle: $(addprefix $(B)/,pnmemd pnmem pnmem-dies tools/gpu-probe)
	$(call say,BUNDLE,$(BUNDLE))
	$(Q)tools/bundle $(BUNDLE) $^
	$(Q)install -m 755 tools/gpu-check $(BUNDLE)/

bench:
	$(Q)tools/deps.sh test
	$(Q)$(MAKE) --no-print-directory all $(B)/tools/bench $(B)/tests/libcuda.so.1 \
		$(B)/tests/trace_make
	$(Q)dir=$$(mktemp -d); PN_TRACE_DIR=$$dir $(B)/tools/bench $(B); r=$$?; rm -rf $$dir; exit $$r

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/include/pnmem \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/systemd/system \
		$(addprefix $(DESTDIR)$(PREFIX)/share/man/,man1 man5 man7 man8)
	install -m 755 $(B)/pnmem $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(B)/pnmemd $(DESTDIR)$(PREFIX)/sbin/
	install -D -m 755 $(B)/pnmem-dies $(DESTDIR)$(PREFIX)/libexec/pnmem/pnmem-dies
	install -m 644 $(headers) $(DESTDIR)$(PREFIX)/include/pnmem/
	install -m 755 $(B)/libpnmem.so $(DESTDIR)$(PREFIX)/lib/libpnmem.so.0
	ln -sf libpnmem.so.0 $(DESTDIR)$(PREFIX)/lib/libpnmem.so
	install -m 644 $(B)/libpnmem.a $(DESTDIR)$(PREFIX)/lib/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' tools/pnmem.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/pnmem.pc
	sed -e 's|@PREFIX@|$(PREFIX)|' tools/pnmemd.service.in \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/pnmemd.service
	for n in 1 5 7 8; do \
		install -m 644 tools/man/*.$$n $(DESTDIR)$(PREFIX)/share/man/man$$n/ || exit; \
	done

help:
	@sed -n 's/^#   //p' Makefile

# Of what make would run, the lines that compile a file; the sanitizers' variants are left out.
compile_commands.json:
	$(call say,GEN,$@)
	$(Q)$(MAKE) --no-print-directory -nB tests | sed -nE \
		-e '\! -o $(B)/(asan|tsan)/!d' -e 's/["\\]/\\&/g' \
		-e 's!^([^ ]*/)?(gcc|clang) .* -c ([^ ]+) -o .*!{"directory": "$(CURDIR)", "file": "\3", "command": "&"}!p' | \
		sed -e '1s/^/[/' -e '$$!s/$$/,/' -e '$$s/$$/]/' > $@

clean:
	rm -rf $(B)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
