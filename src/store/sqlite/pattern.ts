/** A pattern of `domain/text.ts`, in which `*` alone is no letter, as SQLite's GLOB takes it. Pure. */
export const toGlob = (pattern: string) => pattern.replace(/[?[]/g, '[$&]')
