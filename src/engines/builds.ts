/**
 * The builds of engines by name. None of them is pinned yet: a build is, once somebody who had its file in hand has taken its SHA-256,
 * and run it. Until then `--from` takes a file, with the hash that its publisher says.
 */
export const VARIANTS = ['cpu', 'vulkan', 'cuda', 'rocm'] as const
