/** HTTP/1.1 responses, however their bytes are split, and which are rejected as invalid. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { FramingError } from '../../../src/upstreams/http1/head.ts'
import { type BodyListener, ResponseParser } from '../../../src/upstreams/http1/response-parser.ts'
import { inPieces } from '../../support/cuts.ts'

interface Heard {
  status: number | null
  headers: Record<string, string>
  body: string
  ended: boolean
}

/** Reads as many responses as there are requests from pieces; the next is expected as soon as one has ended. */
function read(pieces: readonly Uint8Array[], requests: number, isClosed = false): Heard[] {
  const parser = new ResponseParser()
  const answers: Heard[] = []
  const expectNext = () => {
    if (answers.length === requests) return
    const heard: Heard = { status: null, headers: {}, body: '', ended: false }
    answers.push(heard)
    const body: BodyListener = {
      data(piece, from, to) {
        heard.body += piece.toString('latin1', from, to)
      },
      end() {
        heard.ended = true
        expectNext()
      },
    }
    parser.expect({
      head({ status, headers }) {
        heard.status = status
        heard.headers = Object.fromEntries(headers)
        return body
      },
    })
  }
  expectNext()
  for (const piece of pieces) parser.feed(Buffer.from(piece))
  if (isClosed) parser.close()
  return answers
}

const bytesOf = (text: string) => Buffer.from(text, 'latin1')
const readText = (text: string, requests = 1, isClosed = false) => read([bytesOf(text)], requests, isClosed)

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n'
const PLAIN = `${HEAD}Content-Length: 5\r\n\r\nhello`
const CHUNKED = `${HEAD}Transfer-Encoding: Chunked\r\n\r\n4;name="v"\r\nhell\r\n0001\r\no\r\n0\r\nx-trailer: 1\r\n\r\n`

describe('a response', () => {
  const whole = { status: 200, headers: { 'content-type': 'a/b' }, body: 'hello', ended: true }
  test.each([
    ['with a length', PLAIN, { 'content-length': '5' }],
    ['in chunks', CHUNKED, { 'transfer-encoding': 'Chunked' }],
    [
      'behind interim ones',
      `HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 100 \r\n\r\n${PLAIN}`,
      { 'content-length': '5' },
    ],
    [
      'with one length twice',
      `${HEAD}content-length: 5\r\ncontent-length: 5\r\n\r\nhello`,
      { 'content-length': '5, 5' },
    ],
  ])('%s is the same wherever it is cut', (_, text, headers) => {
    const expected = [{ ...whole, headers: { ...whole.headers, ...headers } }]
    expect(readText(text)).toEqual(expected)
    for (let at = 1; at < text.length; at++)
      expect(read([bytesOf(text.slice(0, at)), bytesOf(text.slice(at))], 1)).toEqual(expected)
    expect(read([...text].map(bytesOf), 1)).toEqual(expected)
  })

  test('without a length ends with its connection', () => {
    expect(readText(`${HEAD}\r\nhel`)).toMatchObject([{ body: 'hel', ended: false }])
    expect(readText(`${HEAD}\r\nhello`, 1, true)).toMatchObject([{ body: 'hello', ended: true }])
  })

  test.each([204, 304])('with status %d has no body, whatever its headers say', (status) => {
    expect(readText(`HTTP/1.1 ${status} \r\ncontent-length: 7\r\n\r\n`)).toMatchObject([
      { status, body: '', ended: true },
    ])
  })

  test('follows another over the same connection', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ body: fc.string({ unit: 'binary', maxLength: 40 }), chunks: fc.array(fc.nat(9)) }), {
          minLength: 1,
          maxLength: 5,
        }),
        fc.array(fc.nat(200)),
        (answers, cuts) => {
          const all = bytesOf(answers.map(({ body, chunks }) => toWire(latin1(body), chunks)).join(''))
          expect(read(inPieces(all, cuts), answers.length)).toMatchObject(
            answers.map(({ body }) => ({ body: latin1(body), ended: true })),
          )
        },
      ),
    )
  })
})

const latin1 = (text: string) => [...text].map((one) => String.fromCharCode((one.codePointAt(0) ?? 0) % 256)).join('')

/** Has a length unless chunks are requested. */
function toWire(body: string, chunks: readonly number[]): string {
  if (chunks.length === 0) return `${HEAD}content-length: ${body.length}\r\n\r\n${body}`
  let text = `${HEAD}transfer-encoding: chunked\r\n\r\n`
  let at = 0
  for (const size of chunks) {
    const chunk = body.slice(at, at + size + 1)
    if (chunk !== '') text += `${chunk.length.toString(16)}\r\n${chunk}\r\n`
    at += size + 1
  }
  const rest = body.slice(at)
  return `${text}${rest === '' ? '' : `${rest.length.toString(16)}\r\n${rest}\r\n`}0\r\n\r\n`
}

describe('is invalid', () => {
  const chunk = (text: string) => `${HEAD}transfer-encoding: chunked\r\n\r\n${text}`
  test.each([
    ['another protocol', 'SSH-2.0-x\r\n\r\n'],
    ['a status without digits', 'HTTP/1.1 2oo OK\r\n\r\n'],
    ['HTTP/2', 'HTTP/2 200\r\n\r\n'],
    ['a line without a carriage return', 'HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n'],
    ['a carriage return inside of a line', `HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n`],
    ['a folded header', `HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n`],
    ['a blank before the colon', `HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n`],
    ['a header without a name', `HTTP/1.1 200 OK\r\n: 0\r\n\r\n`],
    ['two lengths', `HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n`],
    ['a length with a sign', `HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n`],
    ['a length in hex', `HTTP/1.1 200 OK\r\ncontent-length: 0x5\r\n\r\n`],
    ['no length at all', `HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n`],
    ['another encoding', `HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n`],
    ['chunks twice', `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['chunks of HTTP/1.0', `HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['another protocol that was switched to', 'HTTP/1.1 101 x\r\n\r\n'],
    ['a chunk without a length', chunk('\r\n')],
    ['a chunk of negative length', chunk('-1\r\n')],
    ['a chunk of hex with a mark', chunk('0x1\r\na\r\n')],
    ['a chunk longer than numbers are exact', chunk('fffffffffffffff\r\n')],
    ['a chunk that is longer than it says', chunk('1\r\nab\r\n')],
    ['a chunk line without a carriage return', chunk('1\na\r\n')],
    ['a trailer that is none', chunk('0\r\nnonsense\r\n\r\n')],
    ['interim answers without an end', 'HTTP/1.1 103 Early\r\n\r\n'.repeat(4_000)],
    ['a header of blanks that would be tried in every way', `HTTP/1.1 200 OK\r\na:${' '.repeat(60_000)}\u0001\r\n\r\n`],
    ['a head without an end', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(20_000)}`],
    ['a chunk line without an end', chunk(`1;${'x'.repeat(10_000)}`)],
    ['trailers without an end', chunk(`0\r\n${'a: b\r\n'.repeat(20_000)}`)],
  ])('%s', (_, text) => {
    expect(() => readText(text)).toThrow(FramingError)
    expect(() => read([...text].slice(0, 70_000).map(bytesOf), 1)).toThrow(FramingError)
  })

  test.each([
    ['in its head', HEAD],
    ['in its body', `${HEAD}content-length: 5\r\n\r\nhell`],
    ['in a chunk', chunk('5\r\nhell')],
    ['before its last chunk', chunk('5\r\nhello\r\n')],
    ['before the end of its trailers', chunk('0\r\n')],
  ])('one that is cut %s', (_, text) => {
    expect(() => readText(text, 1, true)).toThrow(FramingError)
  })

  test('arbitrary data throws no other error', () => {
    const words = fc.constantFrom(
      ...'HTTP/1.1 200 OK|\r\n|\r\n\r\n|content-length: |transfer-encoding: chunked|5|0|a|;|: |1\r\na\r\n'.split('|'),
    )
    fc.assert(
      fc.property(
        fc.array(fc.oneof(words, fc.string({ unit: 'binary', maxLength: 5 })), { maxLength: 30 }),
        (parts) => {
          try {
            readText(latin1(parts.join('')), 2, true)
          } catch (error) {
            expect(error).toBeInstanceOf(FramingError)
          }
        },
      ),
      { numRuns: 2_000 },
    )
  })
})

describe('a connection is reused', () => {
  const keptMs = (text: string, isClosed = false) => {
    const parser = new ResponseParser()
    parser.expect({ head: () => ({ data() {}, end() {} }) })
    parser.feed(bytesOf(text))
    if (isClosed) parser.close()
    return parser.keptMs
  }
  test.each([
    ['after an answer with a length', PLAIN, Number.POSITIVE_INFINITY],
    ['after one in chunks', CHUNKED, Number.POSITIVE_INFINITY],
    ['for as long as it says', PLAIN.replace('\r\n', '\r\nKeep-Alive: timeout=5, max=100\r\n'), 5_000],
    ['not before its end', PLAIN.slice(0, -1), 0],
    ['not after `connection: close`', PLAIN.replace('\r\n', '\r\nConnection: x, Close\r\n'), 0],
    ['not after HTTP/1.0', PLAIN.replace('/1.1', '/1.0'), 0],
    ['not after one that says its length in two ways', CHUNKED.replace('\r\n', '\r\ncontent-length: 5\r\n'), 0],
    ['not where more came than was asked for', `${PLAIN}HTTP/1.1 200 OK\r\n\r\n`, 0],
  ])('%s', (_, text, expected) => {
    expect(keptMs(text)).toBe(expected)
  })
  test('but not after it was closed', () => {
    expect(keptMs(PLAIN, true)).toBe(0)
    expect(keptMs(`${HEAD}\r\nhello`, true)).toBe(0)
  })
})

test('the body data of a piece is handed on at once, however many chunks it has', () => {
  const parser = new ResponseParser()
  const heard: string[] = []
  const body: BodyListener = {
    data: (piece, from, to) => heard.push(piece.toString('utf8', from, to)),
    end: () => heard.push('end'),
  }
  parser.expect({
    head() {
      heard.push('head')
      return body
    },
  })
  parser.feed(bytesOf(`${HEAD}transfer-encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n3\r\nde`))
  expect(heard).toEqual(['head', 'abcde'])
  parser.feed(bytesOf('f\r\n1\r\ng\r\n0\r\n\r\n'))
  expect(heard).toEqual(['head', 'abcde', 'fg', 'end'])
})

test('data before an error is handed on', () => {
  const parser = new ResponseParser()
  let heard = ''
  parser.expect({ head: () => ({ data: (piece, from, to) => (heard += piece.toString('utf8', from, to)), end() {} }) })
  expect(() => parser.feed(bytesOf(`${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n`))).toThrow(FramingError)
  expect(heard).toBe('ab')
})

test('after a stop, nothing more is handed on, wherever that happens', () => {
  for (const text of [PLAIN, CHUNKED]) {
    for (const last of ['head', 'data', 'end']) {
      const parser = new ResponseParser()
      const heard: string[] = []
      const hear = (what: string) => {
        heard.push(what)
        if (what === last) parser.stop()
      }
      const body: BodyListener = { data: () => hear('data'), end: () => hear('end') }
      parser.expect({
        head() {
          hear('head')
          return body
        },
      })
      parser.feed(bytesOf(text))
      expect(heard.indexOf(last)).toBe(heard.length - 1)
      expect([parser.isIdle, parser.keptMs]).toEqual([true, 0])
    }
  }
})
