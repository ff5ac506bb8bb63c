# Copies and atomics on memory that may not be there.
#
# Every instruction between `_narrow` and `_narrow_end`, and between `_wide` and `_wide_end`, may
# fault; the handler (handler.rs) then continues at `_narrow_fault` or `_wide_fault`, which return
# 1 to the caller. Nothing here touches the stack, so returning is all that is left to do.
#
# System V calling convention. Copies: rdi target, rsi source, rdx bytes; rax 0 when done.
# Atomics: rdi address; rax the value found, rdx 0 when done.
#
# Copies go upwards, and accesses on the program's side (`near`) are aligned to their own size, so
# that an aligned 8-byte word is read or written in one piece and the last byte is written last.

# Pieces of the last rdx mod 64 bytes, largest first; `near` is aligned to the largest.
.macro SOFTRNIC_TAIL
12: test dl, 48
    jz 14f
    test dl, 32
    jz 13f
    movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    add rsi, 32
    add rdi, 32
13: test dl, 16
    jz 14f
    movups xmm0, [rsi]
    movups [rdi], xmm0
    add rsi, 16
    add rdi, 16
14: test dl, 8
    jz 15f
    mov rax, [rsi]
    mov [rdi], rax
    add rsi, 8
    add rdi, 8
15: test dl, 7
    jz 18f
    test dl, 4
    jz 16f
    mov eax, [rsi]
    mov [rdi], eax
    add rsi, 4
    add rdi, 4
16: test dl, 2
    jz 17f
    movzx eax, word ptr [rsi]
    mov [rdi], ax
    add rsi, 2
    add rdi, 2
17: test dl, 1
    jz 18f
    movzx eax, byte ptr [rsi]
    mov [rdi], al
18: xor eax, eax
    ret
.endm

# Copies pieces of 1, 2, 4 and 8 bytes until `near` is a multiple of 16, then goes to 10; or, when
# fewer bytes are left than the next piece has, to the tail.
.macro SOFTRNIC_HEAD near
20: test \near, 1
    jz 21f
    cmp rdx, 1
    jb 12b
    movzx eax, byte ptr [rsi]
    mov [rdi], al
    add rsi, 1
    add rdi, 1
    sub rdx, 1
21: test \near, 2
    jz 22f
    cmp rdx, 2
    jb 12b
    movzx eax, word ptr [rsi]
    mov [rdi], ax
    add rsi, 2
    add rdi, 2
    sub rdx, 2
22: test \near, 4
    jz 23f
    cmp rdx, 4
    jb 12b
    mov eax, [rsi]
    mov [rdi], eax
    add rsi, 4
    add rdi, 4
    sub rdx, 4
23: test \near, 8
    jz 10b
    cmp rdx, 8
    jb 12b
    mov rax, [rsi]
    mov [rdi], rax
    add rsi, 8
    add rdi, 8
    sub rdx, 8
    jmp 10b
.endm

# A whole copy with 16-byte registers.
.macro SOFTRNIC_COPY near
    test \near, 15
    jnz 20f
10: sub rdx, 64
    jb 12f
    .p2align 4
11: movups xmm0, [rsi]
    movups xmm1, [rsi + 16]
    movups xmm2, [rsi + 32]
    movups xmm3, [rsi + 48]
    movups [rdi], xmm0
    movups [rdi + 16], xmm1
    movups [rdi + 32], xmm2
    movups [rdi + 48], xmm3
    add rsi, 64
    add rdi, 64
    sub rdx, 64
    jae 11b
    SOFTRNIC_TAIL
    SOFTRNIC_HEAD \near
.endm

# The same with 32-byte registers; at least 160 bytes, so that one block follows any head.
.macro SOFTRNIC_COPY_WIDE near, finish
    test \near, 15
    jnz 20f
10: test \near, 16
    jz 30f
    movups xmm0, [rsi]
    movups [rdi], xmm0
    add rsi, 16
    add rdi, 16
    sub rdx, 16
30: sub rdx, 128
    .p2align 4
31: vmovdqu ymm0, [rsi]
    vmovdqu ymm1, [rsi + 32]
    vmovdqu ymm2, [rsi + 64]
    vmovdqu ymm3, [rsi + 96]
    vmovdqu [rdi], ymm0
    vmovdqu [rdi + 32], ymm1
    vmovdqu [rdi + 64], ymm2
    vmovdqu [rdi + 96], ymm3
    add rsi, 128
    add rdi, 128
    sub rdx, 128
    jae 31b
    vzeroupper
    add rdx, 128
    jmp \finish
12: ud2                     # the head never runs out of bytes here
    SOFTRNIC_HEAD \near
.endm

.macro SOFTRNIC_ENTRY name
    .globl softrnic_verbs_0_1_\name
    .hidden softrnic_verbs_0_1_\name
    .type softrnic_verbs_0_1_\name, @function
    softrnic_verbs_0_1_\name:
.endm

.pushsection .text.softrnic_verbs_0_1, "ax", @progbits
.p2align 6
SOFTRNIC_ENTRY narrow
SOFTRNIC_ENTRY write
    .cfi_startproc
    SOFTRNIC_COPY dil
    .cfi_endproc
.p2align 6
SOFTRNIC_ENTRY read
    .cfi_startproc
    SOFTRNIC_COPY sil
    .cfi_endproc
.p2align 4
SOFTRNIC_ENTRY compare_swap # rsi compare, rdx swap
    .cfi_startproc
    mov rax, rsi
    lock cmpxchg [rdi], rdx
    xor edx, edx
    ret
    .cfi_endproc
.p2align 4
SOFTRNIC_ENTRY fetch_add    # rsi addend
    .cfi_startproc
    mov rax, rsi
    lock xadd [rdi], rax
    xor edx, edx
    ret
    .cfi_endproc
SOFTRNIC_ENTRY narrow_end
.p2align 6
SOFTRNIC_ENTRY wide
SOFTRNIC_ENTRY write_wide
    .cfi_startproc
    SOFTRNIC_COPY_WIDE dil, softrnic_verbs_0_1_write
    .cfi_endproc
.p2align 6
SOFTRNIC_ENTRY read_wide
    .cfi_startproc
    SOFTRNIC_COPY_WIDE sil, softrnic_verbs_0_1_read
    .cfi_endproc
SOFTRNIC_ENTRY wide_end
SOFTRNIC_ENTRY wide_fault
    .cfi_startproc
    vzeroupper
SOFTRNIC_ENTRY narrow_fault
    mov eax, 1
    mov edx, 1
    ret
    .cfi_endproc
.popsection

.purgem SOFTRNIC_TAIL
.purgem SOFTRNIC_HEAD
.purgem SOFTRNIC_COPY
.purgem SOFTRNIC_COPY_WIDE
.purgem SOFTRNIC_ENTRY
