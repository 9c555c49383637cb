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
# _GNU_SOURCE: gnu11 on Linux; hidden visibility: only PN_API symbols leave libpnmem.so; cmocka 2
# warns on calls that cmocka 1 has no other names for.
base_cflags := -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -pthread $(warnings) -D_GNU_SOURCE \
	       -DCMOCKA_DISABLE_DEPRECATION_WARNINGS -DPNMEM_VERSION='"$(VERSION)"' -Iinclude \
	       -Iuser -MMD -MP

# What is shipped checks itself while it runs; tests/hardening.sh reads from the files that it does.
# Another _FORTIFY_SOURCE in CFLAGS stays, and without optimization the C library has none.
fortify := $(if $(or $(filter -O0,$(CFLAGS)),$(findstring _FORTIFY_SOURCE,$(CFLAGS))),, \
	     -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
machine := $(shell $(CC) -dumpmachine)
branches := $(if $(filter x86_64-% i%86-%,$(machine)),-fcf-protection=full, \
	      $(if $(filter aarch64-%,$(machine)),-mbranch-protection=standard))
hard_cflags  := -fstack-protector-strong $(fortify) $(branches)
hard_ldflags := -Wl,-z,relro,-z,now,-z,noexecstack

lib_libs   := -pthread -lm
# Without libseccomp the agent has no system call filter, and says so.
seccomp_libs := $(shell $(PKG) --libs libseccomp 2>/dev/null)
agent_libs := $(shell $(PKG) --libs libbpf libsystemd 2>/dev/null) $(seccomp_libs) $(lib_libs)
cli_libs   := $(shell $(PKG) --libs jansson 2>/dev/null) $(lib_libs)
engine_libs := $(shell $(PKG) --libs libmicrohttpd jansson 2>/dev/null) $(lib_libs)

# Folders whose .c files belong together, with the rooms in them.
sources = $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c)
core_src  := $(call sources,user/core)
host_src  := $(call sources,user/host)
lib_src   := $(call sources,user/lib)
agent_src := $(call sources,user/agent)
cli_src   := $(call sources,user/cli)
dies_src  := $(call sources,user/dies)
support_src := $(call sources,tests/support)
bpf_src   := $(wildcard bpf/*.bpf.c)
headers   := $(filter-out include/pn_event.h,$(wildcard include/*.h))

unit_tests := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))
host_tests := $(patsubst tests/host/%.c,$(B)/tests/host/%,$(wildcard tests/host/test_*.c))
fuzzers    := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
tools      := $(patsubst tools/%.c,$(B)/tools/%,$(wildcard tools/*.c)) $(B)/tools/engine \
	      $(B)/tools/bench $(B)/tools/gpu-probe

objs = $(patsubst %.c,$(B)/$(1)/%.o,$(2))
# The sources of a list that have one of these names.
named = $(filter $(addprefix %/,$(1)),$(2))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all run check soak check-kernels bundle bench install clean tests unit-tests help \
	compile_commands.json

all: $(B)/pnmemd $(B)/pnmem $(B)/pnmem-dies $(B)/libpnmem.so $(B)/libpnmem.a $(B)/tools/pressure

# Every program and library is linked by this, from the objects and archives it depends on, with the
# libs and link_flags that are set for it.
link_flags = -pie
define link
$(call say,LD,$@)
@mkdir -p $(@D)
$(Q)$(CC) $(link_flags) $(hard_ldflags) $(filter %.o %.a,$^) $(LDFLAGS) $(libs) -o $@
endef

# ---- C objects, one rule per sanitizer variant --------------------------------------------------
# asan and tsan exist for core, host, lib and the unit tests. -Wno-tsan: gcc warns on fences.
flags_obj  := $(hard_cflags)
flags_asan := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
flags_tsan := -fsanitize=thread -Wno-tsan -DPN_TSAN=1

define variant
$(B)/$(1)/%.o: %.c
	$$(call say,CC,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(base_cflags) $$(flags_$(1)) $$(CFLAGS) -c $$< -o $$@

$(B)/$(1)/tests/unit/%: private libs = $(flags_$(1)) -lcmocka $(lib_libs)
$(B)/$(1)/tests/unit/%: $(B)/$(1)/tests/unit/%.o $(call objs,$(1),$(core_src) $(host_src) $(lib_src))
	$$(link)
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

$(B)/bpf/cuda.linked.o: $(B)/bpf/cuda.bpf.o
	$(Q)ln -f $< $@

$(B)/bpf/%.skel.h: $(B)/bpf/%.linked.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# The objects of these sources, in the variants that there is an agent of.
agent_objs = $(foreach v,obj asan,$(call objs,$(v),$(call named,$(1),$(agent_src))))
$(call agent_objs,filter.c): base_cflags += $(if $(seccomp_libs),-DPNMEM_SECCOMP=1)
$(call agent_objs,hooks.c): $(B)/bpf/pnmem.skel.h
$(call agent_objs,cuda_hooks.c): $(B)/bpf/cuda.skel.h
$(call agent_objs,hooks.c cuda_hooks.c): base_cflags += -I$(B)/bpf

# ---- what is shipped ----------------------------------------------------------------------------
lib_objs := $(call objs,obj,$(core_src) $(host_src) $(lib_src))

# -z nodelete: the library's thread goes on after a dlclose without pn_memwatch_stop.
$(B)/libpnmem.so: private link_flags = -shared -Wl,-soname,libpnmem.so.0 -Wl,-z,nodelete,-z,defs \
	-Wl,--version-script=user/lib/libpnmem.map
$(B)/libpnmem.so: private libs = $(lib_libs)
$(B)/libpnmem.so: $(lib_objs) user/lib/libpnmem.map
	$(link)
	@ln -sf libpnmem.so $(B)/libpnmem.so.0

# One object with every internal name made local, so that a static engine sees pn_ and bs_ only.
$(B)/libpnmem.a: $(lib_objs)
	$(call say,AR,$@)
	$(Q)$(LD) -r $^ -o $(B)/libpnmem.o
	$(Q)objcopy --localize-hidden $(B)/libpnmem.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(B)/libpnmem.o

$(B)/pnmemd: private libs = $(agent_libs)
$(B)/pnmemd: $(call objs,obj,$(agent_src) $(core_src) $(host_src))
# Not libpnmem.a, in which the names of core are local: what reads trace files needs those.
$(B)/pnmem: private libs = $(cli_libs)
$(B)/pnmem: $(call objs,obj,$(cli_src)) $(lib_objs)
# The die sampler opens libcuda while it runs: it links libc only.
$(B)/pnmem-dies: $(call objs,obj,$(dies_src) user/core/die_message.c)
$(addprefix $(B)/,pnmemd pnmem pnmem-dies):
	$(link)

# The page of pnmem trace export --html, as strings.
page_src := $(wildcard user/cli/trace/export/page*)
$(B)/gen/trace_page.inc: $(page_src)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)for kind in html js; do \
		echo "static const char page_$$kind[] ="; \
		cat user/cli/trace/export/page*.$$kind | sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/'; \
		echo ';'; \
	done > $@

$(call objs,obj,$(call named,html.c,$(cli_src))): $(B)/gen/trace_page.inc
$(call objs,obj,$(call named,html.c,$(cli_src))): base_cflags += -I$(B)/gen

# ---- tests, fuzzers, tools ----------------------------------------------------------------------
$(B)/tests/unit/%: $(B)/obj/tests/unit/%
	@mkdir -p $(@D)
	@ln -sf ../../obj/tests/unit/$* $@

# Their own helpers are in tests/support.
$(B)/obj/tests/% $(B)/obj/tools/%: base_cflags += -Itests

# Host tests may look inside the agent (all but its main) and use the library.
$(B)/tests/host/%: private libs = -lcmocka $(agent_libs) $(cli_libs)
$(host_tests): $(B)/tests/host/%: $(B)/obj/tests/host/%.o $(call objs,obj,$(support_src) \
		tests/cuda/fake_cuda.c $(filter-out user/agent/main.c,$(agent_src))) $(lib_objs)
	$(link)

# What single tests start or load, one line each, and what it is linked with.
$(B)/tests/host/fake_dies: $(call objs,obj,tests/host/fake_dies.c user/core/die_message.c)
$(B)/tests/host/sd_event_program: $(call objs,obj,tests/host/sd_event_program.c)
$(B)/tests/json_check: $(call objs,obj,tests/json_check.c)
$(B)/tests/trace_make: $(call objs,obj,tests/trace_make.c $(core_src))
$(B)/tests/trace_event_check: $(call objs,obj,tests/trace_event_check.c $(core_src))
$(B)/tests/png_check: $(call objs,obj,tests/png_check.c)
$(B)/tests/png_check: private libs = -lz
$(B)/tests/fake-cuda: $(call objs,obj,$(addprefix tests/cuda/,fake_cuda_main.c fake_cuda.c \
		libcuda_state.c))
$(B)/tests/live_fuzz: private libs = -lcmocka
$(B)/tests/live_fuzz: $(call objs,obj,tests/host/live_fuzz.c user/core/proto.c user/core/budget.c \
		user/host/send_as.c \
		$(call named,agent_proc.c raw_client.c made_host.c,$(support_src)))
$(B)/tests/host/fake/libcuda.so.1: $(call objs,obj,tests/host/fake_libcuda.c)
# The stand-in for NVIDIA's driver library.
$(B)/tests/libcuda.so.1: $(call objs,obj,$(wildcard tests/cuda/libcuda_*.c) tests/cuda/fake_cuda.c)
$(addprefix $(B)/tests/,libcuda.so.1 host/fake/libcuda.so.1): private link_flags = -shared \
		-Wl,-soname,libcuda.so.1 -Wl,-z,defs
test_parts := $(addprefix $(B)/tests/,host/fake_dies host/sd_event_program json_check trace_make \
		trace_event_check png_check fake-cuda live_fuzz host/fake/libcuda.so.1 libcuda.so.1)
$(addprefix $(B)/tests/,json_check trace_make trace_event_check): private libs = $(cli_libs)
$(addprefix $(B)/tests/,libcuda.so.1 fake-cuda host/fake_dies host/sd_event_program \
		host/fake/libcuda.so.1): private libs = -pthread
$(test_parts):
	$(link)

# The agent's message handler is fuzzed with the agent behind it.
fuzz_more_fuzz_serve := $(filter-out user/agent/main.c,$(agent_src)) tests/support/made_host.c
fuzz_more_fuzz_trace_story := $(addprefix user/cli/trace/,names.c views.c) \
		$(call named,story.c kills.c levels.c memory.c reclaim.c recorded.c refusals.c \
		stallers.c,$(cli_src))
fuzz_more_fuzz_trace_export := $(addprefix user/cli/trace/,words.c names.c views.c) \
		$(call named,perfetto.c tracks.c timeline.c html.c format.c,$(cli_src))
$(B)/fuzz/fuzz_serve: libs = $(agent_libs)
$(B)/fuzz/fuzz_serve: $(B)/bpf/pnmem.skel.h $(B)/bpf/cuda.skel.h
$(B)/fuzz/fuzz_trace_export: $(B)/gen/trace_page.inc
$(B)/fuzz/%: libs = $(lib_libs)
.SECONDEXPANSION:
$(fuzzers): $(B)/fuzz/%: tests/fuzz/%.c $(core_src) $(host_src) $$(fuzz_more_$$*)
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -MMD -MP,$(base_cflags)) -Itests -I$(B)/bpf -I$(B)/gen \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(filter %.c,$^) \
		$(libs) -o $@

# A running agent under AddressSanitizer.
$(B)/asan/pnmemd: private libs = $(flags_asan) $(agent_libs)
$(B)/asan/pnmemd: $(call objs,asan,$(agent_src) $(core_src) $(host_src))
	$(link)

$(B)/tools/pressure: $(call objs,obj,tools/pressure.c tests/support/pressure.c) $(B)/libpnmem.a
# Its baselines need what is inside: the agent's hooks, the page's writer.
$(B)/tools/bench: private libs = $(agent_libs) $(cli_libs)
$(B)/tools/bench: $(call objs,obj,$(call sources,tools/bench) tests/cuda/fake_cuda.c \
		$(call named,pressure.c agent_proc.c,$(support_src)) \
		$(call named,hooks.c hooks_why.c cuda_hooks.c uprobe.c,$(agent_src))) $(lib_objs)
$(B)/tools/engine: private libs = $(engine_libs)
$(B)/tools/engine: $(call objs,obj,$(call sources,tools/engine)) $(B)/libpnmem.a
# Checks pnmem where there is a GPU; the agent's reading of ELF symbols is compared with the driver's.
$(B)/tools/gpu-probe: $(call objs,obj,$(call sources,tools/gpu) user/host/elf_symbols.c) \
		$(B)/libpnmem.a
$(B)/tools/%: private libs = $(cli_libs)
$(tools):
	$(link)

unit-tests: $(unit_tests)

tests: all $(unit_tests) $(host_tests) $(fuzzers) $(tools) $(test_parts) $(B)/asan/pnmemd \
       $(foreach v,asan tsan,$(patsubst $(B)/tests/%,$(B)/$(v)/tests/%,$(unit_tests)))

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
