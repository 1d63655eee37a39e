/** Halves of characters: what lies above U+FFFF is two UTF-16 units, and a text must not be cut between them. Pure. */

/** Whether a unit is the first half of such a character. */
export const isHighHalf = (code: number) => code >= 0xd800 && code <= 0xdbff
