/** Reads what somebody else sends, up to so many bytes: nothing that is sent may fill the memory. */

/** What was read of a body as text, and whether that is all of it. Of a longer one nothing more is read. */
export async function readUpTo(
  body: AsyncIterable<Uint8Array> | null,
  mostBytes: number,
): Promise<{ text: string; isWhole: boolean }> {
  const utf8 = new TextDecoder()
  let bytes = 0
  let text = ''
  for await (const piece of body ?? []) {
    const left = mostBytes - bytes
    bytes += piece.length
    if (piece.length > left) return { text: text + utf8.decode(piece.subarray(0, left)), isWhole: false }
    text += utf8.decode(piece, { stream: true })
  }
  return { text: text + utf8.decode(), isWhole: true }
}
