/** However an image's event is written, and however its bytes arrive, the event is joined unchanged. */
import { expect, test } from 'bun:test'
import { SseReader, Utf8Reader } from '../../src/upstreams/framing.ts'
import { PictureCutter } from '../../src/upstreams/pictures.ts'
import type { BodyTaker, Incoming } from '../../src/upstreams/transport.ts'

const PICTURE = 'iVBORw0KGgo+/AA=='

/** The pieces of a body, one after another. */
function* toPieces(text: string, bytes: number) {
  const all = Buffer.from(text)
  for (let at = 0; at < all.length; at += bytes) yield all.subarray(at, at + bytes)
}

const toBody = (pieces: Iterable<Buffer>): Incoming => ({
  ...{ status: 200, header: () => null, text: () => Promise.resolve(null), cancel() {}, leave() {} },
  async pump(taker) {
    for (const piece of pieces) await taker.takeBytes(piece, 0, piece.length)
    return true
  },
})

/** Data of its events, as a reader finds it, and as sent. */
async function read(text: string, bytes: number) {
  const pictures = new PictureCutter()
  const body = pictures.of(toBody(toPieces(text, bytes)), { maxEventBytes: 20_000, inTurn: async (work) => work() })
  const [utf8, sse] = [new Utf8Reader(), new SseReader(20_000)]
  const found: { seen: string; whole: string }[] = []
  const take = (events: ReturnType<SseReader['feed']>) => {
    for (const { data } of events) found.push({ seen: data, whole: pictures.restore(data) })
  }
  const takeBytes: BodyTaker['takeBytes'] = (piece, from, to) => {
    take(sse.feed(utf8.read(piece, from, to)))
    return true
  }
  await body.pump({ takeBytes })
  take(sse.end())
  return found
}

const inPlain = (text: string) => {
  const sse = new SseReader(20_000)
  return [...sse.feed(text), ...sse.end()].map(({ data }) => data)
}

test.each([
  [
    'in any order',
    `data: {"b64_json":"${PICTURE}","type":"x"}\n\ndata: {"type":"y","b64_json" :\t"${PICTURE}"}\r\n\r\n`,
    2,
  ],
  ['several in one event', `data: {"data":[{"b64_json":"${PICTURE}"},{"b64_json":"${PICTURE}"}]}\n\n`, 1],
  ['with escapes, whose end stays', `data: {"b64_json":"iVBORw0KG\\/go","note":"é\\"😀"}\n\n`, 1],
  ['in the text of another field', `data: {"note":"\\"b64_json\\":\\"${PICTURE}\\""}\n\n`, 0],
  [
    'none at all',
    'data: {"b64_json":null}\n\ndata: {"b64_json":""}\n\ndata: {"b64_json":"data:image/png;base64,AAAA"}\n\n',
    0,
  ],
  [
    'on several lines',
    `event: x\ndata: {"b64_json":\ndata: "${PICTURE}"}\n\ndata: {"b64_json":"AAAAAA\ndata: BBBBBB"}\n\n`,
    1,
  ],
  ['that never ends', `data: {"type":"x","b64_json":"${PICTURE}`, 1],
  ['with a number like ours', `data: {"b64_json":"#1","b64_\\u006ason":"#7","b64_json":"${PICTURE}"}\n\n`, 1],
])('pictures %s', async (_, text, cut) => {
  for (let bytes = 1; bytes <= Buffer.byteLength(text); bytes++) {
    const found = await read(text, bytes)
    expect(found.map(({ whole }) => whole)).toEqual(inPlain(text))
    expect(found.filter(({ seen, whole }) => seen !== whole)).toHaveLength(cut)
  }
})

test('an event with larger or more images than allowed is too long', async () => {
  const half = 'A'.repeat(9_501)
  await expect(read(`data: {"b64_json":"${half}"}\n\ndata: {"b64_json":"${half}"}\n\n`, 64)).resolves.toHaveLength(2)
  await expect(read(`data: [{"b64_json":"${half}"},{"b64_json":"${half}"}]\n\n`, 64)).rejects.toThrow(
    'sent an event of more than',
  )
  const tiny = '"b64_json":"AAAAA",'.repeat(20)
  await expect(read(`data: {${tiny}"type":"x"}\n\n`, 64)).rejects.toThrow('sent an event of more than')
})
