/* SPDX-License-Identifier: BSD-2-Clause */
/* A client of the agent without the library: the socket, and the page as it was handed out. */
#ifndef PNMEM_TESTS_RAW_CLIENT_H
#define PNMEM_TESTS_RAW_CLIENT_H

#include <stdint.h>

/* Connects. Returns the socket or -errno. */
int raw_client_connect(const char *socket_path);

/* The same with a socket (SOCK_SEQPACKET) that is there already. 0 or -errno. */
int raw_client_use(int sock, const char *socket_path);

/* Says hello. Returns the page's memfd, or -errno as the agent's status has it. */
int raw_client_hello(int sock);

/* Sends a request that is a header alone and takes its acknowledgement: its status, or -errno. */
int raw_client_ask(int sock, uint16_t type);

#endif
