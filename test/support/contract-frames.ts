/**
 * Reads a stream as strictly as clients may: one `data: {json}` line and a blank line per event, `: keep-alive`
 * comments, and `[DONE]` or an error last. Parses raw text, since a lenient reader would hide bugs.
 */
import { isObject, type Json, type JsonObject, must } from './contract-parts.ts'

export interface ErrorFields {
  message: string
  type: string
  param: string | null
  code: string | null
}

export interface RawFrames {
  /** In order, without the error frame. */
  chunks: JsonObject[]
  done: boolean
  error: ErrorFields | null
  heartbeats: number
}

/** Characters that some clients treat as line ends. */
const LINE_ENDS = /[\u0085\u2028\u2029]/

/** Parses a complete stream; throws the failed check. */
export function readFrames(text: string): RawFrames {
  must(8, !/\r/.test(text), 'lines end in LF alone')
  must(25, !LINE_ENDS.test(text), 'U+2028, U+2029 and U+0085 are escaped')
  must(6, text !== '', 'a stream does not end in silence')
  must(5, text.endsWith('\n\n'), 'a blank line ends every event')
  const frames: RawFrames = { chunks: [], done: false, error: null, heartbeats: 0 }
  for (const event of text.slice(0, -2).split('\n\n')) take(frames, event)
  must(6, frames.done || frames.error !== null, 'a stream ends in [DONE] or in an error frame')
  return frames
}

function take(frames: RawFrames, event: string): void {
  must(5, !frames.done, `nothing follows [DONE], not ${brief(event)}`)
  must(6, frames.error === null, `nothing follows an error frame, not ${brief(event)}`)
  if (event === ': keep-alive') {
    frames.heartbeats += 1
    return
  }
  must(9, !event.startsWith(':'), `the only comment is ": keep-alive", not ${brief(event)}`)
  must(8, /^data: (\{[^\n]*\}|\[DONE\])$/.test(event), `an event is one "data: {json}" line, not ${brief(event)}`)
  if (event === 'data: [DONE]') {
    frames.done = true
    return
  }
  const chunk = parse(event.slice(6))
  if ('error' in chunk) frames.error = toError(chunk)
  else frames.chunks.push(chunk)
}

function parse(json: string): JsonObject {
  let value: Json
  try {
    value = JSON.parse(json)
  } catch {
    must(25, false, `a frame is JSON, not ${brief(json)}`)
    throw new Error('unreachable')
  }
  must(8, isObject(value), 'a frame is a JSON object')
  return value
}

function toError(frame: JsonObject): ErrorFields {
  must(6, Object.keys(frame)[0] === 'error', '"error" is the first key of its frame')
  must(6, Object.keys(frame).length === 1, 'an error frame holds the error alone')
  return checkErrorFields(frame.error)
}

/** Checks the four fields of an error. */
export function checkErrorFields(error: Json | undefined): ErrorFields {
  must(6, isObject(error), 'an error is an object, never null')
  const { message, type, param, code } = error
  const keys = Object.keys(error).sort().join()
  must(11, keys === 'code,message,param,type', `an error has its four keys and no others, not ${keys}`)
  must(11, typeof message === 'string' && message !== '', 'an error has a message')
  must(11, typeof type === 'string' && type !== '', 'an error has a type')
  must(11, param === null || typeof param === 'string', 'param is a string or null')
  must(11, code === null || typeof code === 'string', 'code is a string or null, never a number')
  return { message, type, param, code }
}

const brief = (text: string) => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
