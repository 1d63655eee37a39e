/** Reads a few bytes out of base64 without decoding it all: attachments are large, and only their heads are asked for. Pure. */

/** No media type with its parameters is longer. */
const LONGEST_HEAD = 256

/** The base64 inside of a `data:` URL, and its media type in lower case. */
export interface Data {
  mediaType: string
  base64: string
}

/** Takes a `data:` URL apart; null where the text is none, or not in base64. */
export function fromDataUrl(url: string): Data | null {
  const head = /^data:([^;,]*)(?:;[^,]*)?;base64,/i.exec(url.slice(0, LONGEST_HEAD))
  return head ? { mediaType: (head[1] ?? '').toLowerCase(), base64: url.slice(head[0].length) } : null
}

/** How many bytes the base64 stands for. */
export function bytesOfBase64(base64: string): number {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0
  return Math.floor(((base64.length - padding) * 3) / 4)
}

/** Decodes `count` bytes from byte `from` on; fewer where the data ends earlier. */
export function readBase64(base64: string, from: number, count: number): Buffer {
  const group = Math.floor(from / 3)
  const bytes = Buffer.from(base64.slice(group * 4, Math.ceil((from + count) / 3) * 4), 'base64')
  return bytes.subarray(from - group * 3, from - group * 3 + count)
}
