/**
 * The demo model's tokens: a run of at most eight letters or digits, four marks or eight blanks, with one leading space
 * kept at the word. Deterministic, linear and without a vocabulary, so that its counts are real and cost nothing. Only
 * the demo may use them: no other model counts like this.
 */

/** Letters and digits are those of ASCII and all above it but its three blanks. */
const TOKEN =
  / ?(?:[0-9A-Za-z\x80-\x9f\xa1-\u2027\u202a-\u{10ffff}]{1,8}|[^\s0-9A-Za-z\x80-\u{10ffff}]{1,4})|[\t-\r \xa0\u2028\u2029]{1,8}/gu

/** Counts the tokens of a text without building them. */
export function countTokens(text: string): number {
  let count = 0
  TOKEN.lastIndex = 0
  while (TOKEN.test(text)) count += 1
  return count
}

/** Splits a text into its first `most` tokens; joined, all of them are the text again. */
export function toTokens(text: string, most = Number.POSITIVE_INFINITY): string[] {
  const tokens: string[] = []
  for (const [token] of text.matchAll(TOKEN)) {
    if (tokens.length >= most) break
    tokens.push(token)
  }
  return tokens
}
