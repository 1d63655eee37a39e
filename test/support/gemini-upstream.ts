/**
 * A scripted, strict Gemini upstream with the real framing: CRLF, no names, no `[DONE]`, usage in each chunk, whole
 * calls, and a last chunk with an empty text.
 */
import { isObject, type JsonObject } from './contract-parts.ts'
import { findWrong, type Rules } from './gemini-strict.ts'
import type { Script, Seen } from './upstream.ts'
import type { Behaviour, StreamStep, Whole } from './upstream-answers.ts'

export interface GeminiTurn {
  reasoning?: string
  text?: string
  calls?: readonly { name: string; input?: Record<string, unknown>; id?: string }[]
  /** Images, in base64. */
  images?: readonly string[]
  finish?: string
  usage?: Record<string, unknown>
  /** More fields of the candidate, such as `logprobsResult`. */
  more?: Record<string, unknown>
}

export const GEMINI_USAGE = {
  promptTokenCount: 40,
  cachedContentTokenCount: 8,
  candidatesTokenCount: 7,
  thoughtsTokenCount: 5,
  totalTokenCount: 52,
  promptTokensDetails: [{ modality: 'TEXT', tokenCount: 40 }],
  serviceTier: 'standard',
}

export interface Gemini {
  script: Script
  refused: string[]
  issued: Set<string>
}

export interface GeminiOptions extends Partial<Omit<Rules, 'issued'>> {
  key?: string
  /** Characters per piece of text. */
  pieceChars?: number
  bytesPerWrite?: number
}

/** @param toTurn the response to a valid request, by the number of earlier call turns. */
export function createGemini(
  toTurn: (step: number, body: JsonObject) => GeminiTurn | Behaviour,
  { key = 'x', pieceChars = 8, bytesPerWrite, signs = true, thinks = 'level', ids = true }: GeminiOptions = {},
): Gemini {
  const refused: string[] = []
  const issued = new Set<string>()
  const rules: Rules = { signs, thinks, ids, issued }
  const refuse = (message: string, reason = '') => {
    refused.push(message)
    return googleError(400, 'INVALID_ARGUMENT', message, reason === '' ? [] : [{ reason }])
  }
  const script: Script = (seen) => {
    const found = toMethod(seen)
    if (found === null) return googleError(404, 'NOT_FOUND', `models/${seen.path} is not found for API version v1beta`)
    if (!isSigned(seen, key)) return refuse('API key not valid. Please pass a valid API key.', 'API_KEY_INVALID')
    const wrong = findWrong(seen.json, rules)
    if (wrong !== null) return refuse(wrong)
    const body = seen.json as JsonObject
    const turn = toTurn(countSteps(body), body)
    if ('kind' in turn) return turn
    const signature = Buffer.from(`signature ${seen.index} of ${found.model}`).toString('base64')
    issued.add(signature)
    const parts = toParts(turn, signs ? signature : null)
    return found.isStream
      ? toStream(turn, parts, pieceChars, bytesPerWrite)
      : { kind: 'whole', body: toResponse(parts, turn, turn.finish ?? 'STOP') }
  }
  return { script, refused, issued }
}

const METHOD = /\/models\/([^/:?]+):(generateContent|streamGenerateContent\?alt=sse)$/

function toMethod({ method, path }: Seen): { model: string; isStream: boolean } | null {
  const [, model = '', name = ''] = METHOD.exec(path) ?? []
  return method === 'POST' && model !== '' ? { model, isStream: name.startsWith('stream') } : null
}

const isSigned = ({ headers }: Seen, key: string) =>
  headers['x-goog-api-key'] === key || headers.authorization === `Bearer ${key}`

/** Number of call turns so far. */
const countSteps = ({ contents }: JsonObject) =>
  (Array.isArray(contents) ? contents : []).filter((content) => JSON.stringify(content).includes('"functionCall"'))
    .length

export const googleError = (code: number, status: string, message: string, details: readonly object[] = []): Whole => ({
  kind: 'whole',
  status: code,
  body: { error: { code, message, status, details } },
})

type GeminiPart = Record<string, unknown>

/** The signature is on the first call, or else on an empty text at the end. */
function toParts({ reasoning, text, calls = [], images = [] }: GeminiTurn, signature: string | null): GeminiPart[] {
  const signed = signature === null ? {} : { thoughtSignature: signature }
  return [
    ...(reasoning ? [{ text: reasoning, thought: true }] : []),
    ...(text ? [{ text }] : []),
    ...images.map((data) => ({ inlineData: { mimeType: 'image/png', data }, ...signed })),
    ...calls.map(({ name, input, id }, at) => ({
      functionCall: { ...(id ? { id } : {}), name, ...(input ? { args: input } : {}) },
      ...(at === 0 ? signed : {}),
    })),
    ...(calls.length === 0 && images.length === 0 && signature !== null ? [{ text: '', ...signed }] : []),
  ]
}

const toResponse = (parts: readonly GeminiPart[], turn: GeminiTurn, finish: string | null) => ({
  candidates: [
    {
      content: { role: 'model', parts },
      ...(finish === null ? {} : { finishReason: finish }),
      index: 0,
      ...(finish === null ? {} : turn.more),
    },
  ],
  usageMetadata: turn.usage ?? GEMINI_USAGE,
  modelVersion: 'gemini-3-flash-preview',
  responseId: 'hVP6afiZEuitz7IPypuAsQY',
})

function toStream(turn: GeminiTurn, parts: GeminiPart[], pieceChars: number, bytesPerWrite?: number): Behaviour {
  const pieces = parts.flatMap((part) => toPieces(part, pieceChars))
  const last = pieces.at(-1)
  const isSilent = last?.text === ''
  const chunks = (isSilent ? pieces.slice(0, -1) : pieces).map((part) => toResponse([part], turn, null))
  const steps = [...chunks, toResponse([isSilent ? last : { text: '' }], turn, turn.finish ?? 'STOP')].map(toEvent)
  return { kind: 'stream', steps, end: 'eof', ...(bytesPerWrite ? { bytesPerWrite } : {}) }
}

export const toEvent = (response: object): StreamStep => `data: ${JSON.stringify(response)}\r\n\r\n`

function toPieces(part: GeminiPart, chars: number): GeminiPart[] {
  const { text, ...rest } = part
  if (typeof text !== 'string' || text === '') return [part]
  const all = [...text]
  return Array.from({ length: Math.ceil(all.length / chars) }, (_, at) => ({
    text: all.slice(at * chars, (at + 1) * chars).join(''),
    ...rest,
  }))
}

export const contentsOf = (seen: Seen | undefined): JsonObject[] =>
  (Array.isArray(seen?.json?.contents) ? seen.json.contents : []).filter(isObject)
