/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket whose close takes as long as the one who made it has chosen. */
#ifndef PNMEM_TESTS_LINGERING_SOCKET_H
#define PNMEM_TESTS_LINGERING_SOCKET_H

/*
 * A TCP socket with unsent data that nobody reads, and SO_LINGER of so many seconds. -1 where there
 * is no network. Its listener stays open until the process ends.
 */
int lingering_socket(int linger_s);

#endif
