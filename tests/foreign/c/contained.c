/* contained PROGRAM ARGUMENTS...: starts a program as the default seccomp profile of container engines would have
 * it, in what matters here: calls that make namespaces, mount, load programs into the kernel or look into other
 * processes fail. Before that it checks that the rest of the container is as it should be, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "which architecture?"
#endif

static const unsigned denied[] = {
    SYS_unshare,        SYS_setns,           SYS_mount,         SYS_umount2,          SYS_pivot_root,
    SYS_chroot,         SYS_open_tree,       SYS_move_mount,    SYS_fsopen,           SYS_fsconfig,
    SYS_fsmount,        SYS_fspick,          SYS_mount_setattr, SYS_bpf,              SYS_perf_event_open,
    SYS_ptrace,         SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,        SYS_pidfd_getfd,
    SYS_userfaultfd,    SYS_io_uring_setup,  SYS_io_uring_enter, SYS_io_uring_register, SYS_keyctl,
    SYS_add_key,        SYS_request_key,     SYS_init_module,   SYS_finit_module,     SYS_delete_module,
    SYS_kexec_load,     SYS_reboot,          SYS_swapon,        SYS_swapoff,          SYS_sethostname,
    SYS_setdomainname,  SYS_settimeofday,    SYS_clock_settime, SYS_open_by_handle_at, SYS_name_to_handle_at,
    SYS_lookup_dcookie, SYS_quotactl,        SYS_acct,          SYS_syslog,           SYS_vhangup,
    SYS_mbind,          SYS_set_mempolicy,   SYS_migrate_pages, SYS_move_pages,       SYS_fanotify_init,
};
enum { DENIED = sizeof denied / sizeof *denied };

static void fail(const char *what) {
    fprintf(stderr, "contained: %s: %s\n", what, strerror(errno));
    exit(100);
}

static void demand(int good, const char *what) {
    if (!good) {
        errno = EINVAL;
        fail(what);
    }
}

/* Every flag of clone by which a namespace is made. */
#define NAMESPACES                                                                                                 \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP)

static struct sock_filter statement(unsigned short code, unsigned value) {
    return (struct sock_filter)BPF_STMT(code, value);
}

/* Goes on if the accumulator is `value`, else behind the next `skipped` instructions. */
static struct sock_filter only_if(unsigned value, unsigned char skipped) {
    return (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

static void filter(void) {
    const unsigned short load = BPF_LD | BPF_W | BPF_ABS, end = BPF_RET | BPF_K;
    const unsigned refuse = SECCOMP_RET_ERRNO | EPERM;
    struct sock_filter program[2 * DENIED + 16], *at = program;
    *at++ = statement(load, offsetof(struct seccomp_data, arch));
    *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
    *at++ = statement(end, SECCOMP_RET_KILL_PROCESS);
    *at++ = statement(load, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < DENIED; i++) {
        *at++ = only_if(denied[i], 1);
        *at++ = statement(end, refuse);
    }
    /* The flags of clone3 cannot be seen: programs are made to use clone. */
    *at++ = only_if(SYS_clone3, 1);
    *at++ = statement(end, SECCOMP_RET_ERRNO | ENOSYS);
    *at++ = only_if(SYS_clone, 4);
    *at++ = statement(load, offsetof(struct seccomp_data, args[0]));
    *at++ = statement(BPF_ALU | BPF_AND | BPF_K, NAMESPACES);
    *at++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
    *at++ = statement(end, refuse);
    *at++ = statement(end, SECCOMP_RET_ALLOW);
    struct sock_fprog whole = {.len = (unsigned short)(at - program), .filter = program};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) != 0) fail("seccomp");
}

/* A line of /proc/self/status, without its name. */
static void status_of(const char *name, char *value, size_t size) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    if (!status) fail("/proc/self/status");
    value[0] = 0;
    while (fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            snprintf(value, size, "%s", line + strlen(name) + 2);
    fclose(status);
}

static void demand_status(const char *name, const char *wanted) {
    char value[128];
    status_of(name, value, sizeof value);
    demand(strtoull(value, NULL, 16) == strtoull(wanted, NULL, 16) && value[0], name);
}

static void check(void) {
    const char *capabilities[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    for (unsigned i = 0; i < sizeof capabilities / sizeof *capabilities; i++) demand_status(capabilities[i], "0");
    demand_status("NoNewPrivs", "1");
    demand_status("Seccomp", "2");
    demand(unshare(CLONE_NEWUSER) == -1 && errno == EPERM, "a user namespace can be made");
    demand(unshare(CLONE_NEWNET) == -1 && errno == EPERM, "a network namespace can be made");
    demand(syscall(SYS_bpf, 0, NULL, 0) == -1 && errno == EPERM, "bpf can be called");
    struct statvfs root;
    demand(statvfs("/", &root) == 0 && (root.f_flag & ST_RDONLY), "the root file system can be written to");
    demand(open("/opt/probe", O_CREAT | O_WRONLY, 0600) == -1, "a file can be made in /opt");
}

int main(int count, char **arguments) {
    demand(count > 1, "no program is named");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
    filter();
    check();
    execvp(arguments[1], arguments + 1);
    fail(arguments[1]);
}
