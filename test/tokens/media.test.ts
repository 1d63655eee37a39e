/** Tokens of images and audio, by their headers and the published rules, and fixed figures for the rest. */
import { describe, expect, test } from 'bun:test'
import { tokensOfAudio, tokensOfImage } from '../../src/tokens/media.ts'

const u16 = (value: number) => Buffer.from([value >> 8, value & 255])
const u16le = (value: number) => Buffer.from([value & 255, value >> 8])
const u24le = (value: number) => Buffer.from([value & 255, (value >> 8) & 255, value >> 16])
const u32le = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
const text = (value: string) => Buffer.from(value, 'latin1')
const rest = Buffer.alloc(100)
const join = (...parts: Buffer[]) => Buffer.concat([...parts, rest])

const png = (width: number, height: number) =>
  join(text('\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0'), u16(width), Buffer.alloc(2), u16(height))
const gif = (width: number, height: number) => join(text('GIF89a'), u16le(width), u16le(height))
const segment = (marker: number, body: Buffer) =>
  Buffer.concat([Buffer.from([0xff, marker]), u16(body.length + 2), body])
const frame = (width: number, height: number, marker = 0xc0) =>
  segment(marker, Buffer.concat([Buffer.from([8]), u16(height), u16(width), Buffer.from([3])]))
const jpeg = (...parts: Buffer[]) => join(Buffer.from([0xff, 0xd8]), ...parts)
const webp = (kind: string, ...parts: Buffer[]) => join(text(`RIFF\0\0\0\0WEBP${kind}\0\0\0\0`), ...parts)

const urlOf = (image: Buffer, head = 'data:image/any;base64,') => head + image.toString('base64')
const tiles = (count: number) => 85 + count * 170
const UNKNOWN = tiles(6)

describe('an image', () => {
  test.each([
    // The two examples published with the rule.
    ['1024 x 1024', 1_024, 1_024, 4],
    ['2048 x 4096', 2_048, 4_096, 6],
    ['one tile', 512, 512, 1],
    ['a pixel', 1, 1, 1],
    ['a pixel more than a tile', 513, 512, 2],
    ['a wide screen', 1_920, 1_080, 6],
    ['a long strip', 60_000, 10, 4],
    ['the most there can be', 20_000, 7_000, 8],
  ])('of %s costs the tokens of its tiles', (_, width, height, count) => {
    expect(tokensOfImage({ url: urlOf(png(width, height)) })).toBe(tiles(count))
  })

  test.each([
    ['PNG', png(600, 300)],
    ['GIF', gif(600, 300)],
    ['JPEG', jpeg(segment(0xe0, text('JFIF')), frame(600, 300))],
    ['progressive JPEG', jpeg(segment(0xdb, rest), segment(0xc4, rest), frame(600, 300, 0xc2))],
    [
      'JPEG after metadata',
      jpeg(...Array.from({ length: 5 }, () => segment(0xe1, Buffer.alloc(65_000))), frame(600, 300)),
    ],
    ['JPEG with fill bytes', jpeg(Buffer.from([0xff, 0xff]), frame(600, 300))],
    ['WebP', webp('VP8X', Buffer.alloc(4), u24le(599), u24le(299))],
    ['lossy WebP', webp('VP8 ', text('\0\0\0\x9d\x01\x2a'), u16le(600), u16le(300))],
    ['lossless WebP', webp('VP8L', text('/'), u32le(599 | (299 << 14)))],
  ])('has a known size as %s', (_, image) => {
    expect(tokensOfImage({ url: urlOf(image) })).toBe(tiles(2))
  })

  test.each([
    ['at a URL', 'https://images.example/cat.png'],
    ['of no known format', urlOf(join(text('<svg xmlns="http://www.w3.org/2000/svg"/>')))],
    ['that is truncated', urlOf(png(600, 300).subarray(0, 20))],
    ['without an extent', urlOf(png(0, 300))],
    [
      'without a frame header in reach',
      urlOf(jpeg(...Array.from({ length: 300 }, () => segment(0xfe, Buffer.alloc(1))))),
    ],
    ['with an invalid segment length', urlOf(jpeg(Buffer.from([0xff, 0xe0, 0xff, 0xff])))],
    ['not in base64', 'data:image/svg+xml,%3Csvg%2F%3E'],
    ['without data', 'data:image/png;base64,'],
  ])('%s costs the figure for unknown sizes', (_, url) => {
    expect(tokensOfImage({ url })).toBe(UNKNOWN)
  })

  test('of low detail costs only the base, at any size', () => {
    expect(tokensOfImage({ url: urlOf(png(4_000, 4_000)), detail: 'low' })).toBe(85)
    expect(tokensOfImage({ url: urlOf(png(600, 300)), detail: 'auto' })).toBe(tiles(2))
  })
})

describe('audio', () => {
  const wav = (bytesPerSecond: number, seconds: number, ...before: Buffer[]) => {
    const format = Buffer.concat([text('fmt '), u32le(16), Buffer.alloc(8), u32le(bytesPerSecond), Buffer.alloc(4)])
    const head = Buffer.concat([text('RIFF\0\0\0\0WAVE'), ...before, format, text('data'), u32le(0xffffffff)])
    return Buffer.concat([head, Buffer.alloc(bytesPerSecond * seconds - head.length)]).toString('base64')
  }
  const chunk = (name: string, bytes: number) =>
    Buffer.concat([text(name), u32le(bytes), Buffer.alloc(bytes + (bytes % 2))])

  test.each([
    ['a WAV file with a header', { format: 'wav', data: wav(16_000, 3) }, 30],
    ['one with other chunks first', { format: 'wav', data: wav(48_000, 3, chunk('JUNK', 27), chunk('bext', 100)) }, 30],
    ['one in a data URL', { format: 'wav', data: `data:audio/wav;base64,${wav(16_000, 3)}` }, 30],
    ['one with an invalid header', { format: 'wav', data: wav(1, 96_000) }, 30],
    ['an MP3 file, by its bytes', { format: 'mp3', data: Buffer.alloc(24_000).toString('base64') }, 30],
    ['nothing', { format: 'wav', data: '' }, 0],
  ])('costs ten tokens per second: %s', (_, audio, tokens) => {
    expect(tokensOfAudio(audio)).toBe(tokens)
  })
})
