/* SPDX-License-Identifier: BSD-2-Clause */
/* Lock, bind, listen, remove. See socket.h. */
#include "agent/serve/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/serve/closer.h"
#include "agent/folder.h"
#include "agent/log.h"
#include "agent/serve/peer_socket.h"
#include "agent/serve/replace.h"

#define BACKLOG 512

/* In a folder with the sticky bit another user can have made it. */
static bool is_own_file(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid());
}

/* The lock file decides who serves a path: held for as long as the agent lives. */
static int take_lock(struct served_socket *served)
{
	char path[sizeof(served->path) + 8];

	strcpy(path, served->path);
	strcat(path, ".lock");
	served->lock_fd =
		open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (served->lock_fd < 0) {
		log_line(LOG_ERR, "cannot create %s: %s", path, strerror(errno));
		return -errno;
	}
	if (!is_own_file(served->lock_fd)) {
		log_line(LOG_ERR, "%s belongs to another user: not using it", path);
		return -EPERM;
	}
	return flock(served->lock_fd, LOCK_EX | LOCK_NB) ? -EADDRINUSE : 0;
}

/* Removes what a killed agent left; anything else at the path is not ours to touch. */
static int clear_stale(const struct sockaddr_un *addr)
{
	struct stat st;
	int probe, r;

	if (lstat(addr->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		log_line(LOG_ERR, "%s exists and is not a socket: not touching it", addr->sun_path);
		return -EEXIST;
	}
	probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return -errno;
	r = connect(probe, (const struct sockaddr *)addr, sizeof(*addr)) ? -errno : 0;
	close(probe);
	if (r != -ECONNREFUSED) {
		log_line(LOG_ERR, "%s is another program's socket: not touching it",
			 addr->sun_path);
		return -EADDRINUSE;
	}
	return unlink(addr->sun_path) ? -errno : 0;
}

int socket_bind(int type, const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;
	mode_t mask;

	if (sock < 0)
		return -errno;
	peer_socket_refuse_descriptors(sock);
	strcpy(addr.sun_path, path);
	/* Engines of any user may read; what they can change is their own view's dies. */
	mask = umask(0111);
	r = bind(sock, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : sock;
	umask(mask);
	if (r < 0)
		close(sock);
	return r;
}

static int bind_socket(struct served_socket *served)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int r;

	strcpy(addr.sun_path, served->bound_path);
	r = clear_stale(&addr);
	if (r)
		return r;
	served->fd = socket_bind(SOCK_SEQPACKET, served->bound_path);
	r = served->fd < 0 ? served->fd : peer_socket_want_sender(served->fd);
	if (!r && lstat(addr.sun_path, &st))
		r = -errno;
	if (r) {
		log_line(LOG_ERR, "cannot serve %s: %s", addr.sun_path, strerror(-r));
		return r;
	}
	served->bound = true;
	served->bound_device = st.st_dev;
	served->bound_inode = st.st_ino;
	return 0;
}

static bool path_is_ours(const struct served_socket *served)
{
	struct stat st;

	return !lstat(served->bound_path, &st) && st.st_ino == served->bound_inode &&
	       st.st_dev == served->bound_device;
}

/* Somebody serves the path: bind under a name beside it, to take it over when all is ready. */
static int prepare_to_replace(struct served_socket *served)
{
	int r = replace_find(served->path, &served->old_pidfd);

	if (r)
		return r;
	strcat(served->bound_path, ".next");
	return bind_socket(served);
}

/* The default's directory is on a tmpfs and may have to be made. */
static int make_directory(const char *socket_path)
{
	char dir[SOCKET_PATH_BYTES], real[PATH_MAX];
	char *slash;
	int r;

	strcpy(dir, socket_path);
	slash = strrchr(dir, '/');
	if (!slash || slash == dir)
		return 0;
	*slash = 0;
	if (!access(dir, F_OK))
		return 0;
	r = folder_resolve(dir, real, sizeof(real));
	if (!r && mkdir(real, 0755) && errno != EEXIST) {
		r = -errno;
		log_line(LOG_ERR, "cannot create %s: %s", dir, strerror(-r));
	}
	return r;
}

int socket_take(struct served_socket *served, const char *path, bool replace)
{
	int r;

	if (strlen(path) >= sizeof(served->path) - strlen(".lock")) {
		log_line(LOG_ERR, "socket path too long: %s", path);
		return -ENAMETOOLONG;
	}
	r = make_directory(path);
	if (!r)
		r = folder_resolve(path, served->path, sizeof(served->path) - strlen(".lock"));
	if (r)
		return r;
	strcpy(served->bound_path, served->path);
	r = take_lock(served);
	if (r == -EADDRINUSE && replace)
		return prepare_to_replace(served);
	if (r == -EADDRINUSE)
		log_line(LOG_ERR, "another agent already serves %s", path);
	return r ? r : bind_socket(served);
}

int socket_take_over(struct agent *agent, struct served_socket *served)
{
	int r;

	if (served->old_pidfd < 0)
		return 0;
	r = socket_listen(served);
	if (!r)
		r = replace_take(served->path, served->bound_path, served->old_pidfd,
				 served->lock_fd);
	if (r)
		return r;
	strcpy(served->bound_path, served->path);
	if (path_is_ours(served))
		return 0;
	/* An agent older than --replace removes whatever it finds under its name. */
	closer_drop_listener(agent, served->fd);
	served->bound = false;
	return bind_socket(served);
}

/* A second time, after a take-over, it changes nothing. */
int socket_listen(struct served_socket *served)
{
	if (!listen(served->fd, BACKLOG))
		return 0;
	log_line(LOG_ERR, "cannot serve %s: %s", served->bound_path, strerror(errno));
	return -errno;
}

void socket_close(struct agent *agent, struct served_socket *served)
{
	if (served->bound && path_is_ours(served))
		unlink(served->bound_path);
	if (served->fd >= 0)
		closer_drop_listener(agent, served->fd);
	if (served->old_pidfd >= 0)
		close(served->old_pidfd);
	if (served->lock_fd >= 0)
		close(served->lock_fd);
	*served = SERVED_SOCKET_NONE;
}
