/** Decodes a stream of the OpenAI dialect: what is a chunk, an error, an end, and what is none of them. Pure. */

import type { AnswerEvent, ChatChunk, ChunkChoice } from '../../../domain/answer.ts'
import { UpstreamError } from '../../../domain/error.ts'
import { asObject, type JsonObject, parseJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { Decoder } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { findError, toBodyError, toUpstreamError } from './error.ts'
import { isFinish } from './is-finish.ts'
import { findUsage } from './usage.ts'

export function createDecoder(target: Target): Decoder {
  let terminal = false
  /** By choice: whether it has a finish reason. */
  const finished = new Map<unknown, boolean>()

  const fail = (failure: UpstreamError): AnswerEvent[] => {
    terminal = true
    return [{ failure }]
  }

  const takeChunk = (chunk: JsonObject): AnswerEvent[] => {
    const error = findError(chunk)
    if (error) return fail(toUpstreamError(null, error, target))
    const events: AnswerEvent[] = []
    const choices: ChunkChoice[] = Array.isArray(chunk.choices) ? chunk.choices : []
    if (choices.length > 0) events.push({ chunk: toChunk(chunk, choices) })
    for (const choice of choices) {
      const index = choice?.index ?? 0
      if (isFinish(choice?.finish_reason)) finished.set(index, true)
      else if (!finished.has(index)) finished.set(index, false)
    }
    const usage = findUsage(chunk)
    if (usage) events.push({ usage })
    return events
  }

  const takeData = (data: string): AnswerEvent[] => {
    const chunk = tryParse(data)
    if (chunk) return takeChunk(chunk)
    if (isDone(data)) {
      terminal = true
      return [{ done: true }]
    }
    if (isSilence(data)) return []
    // Events that are parted by one line end instead of two arrive as one.
    const lines = data.split('\n').filter((line) => !isSilence(line))
    if (lines.length > 1 && lines.every((line) => isDone(line) || tryParse(line))) {
      return lines.flatMap((line) => (terminal ? [] : takeData(line)))
    }
    return fail(new UpstreamError('broken', 'sent a stream event that is not JSON'))
  }

  return {
    event({ name, data }: SseEvent) {
      if (terminal) return []
      if (name === 'error') return fail(toBodyError(null, data, target))
      return takeData(data)
    },
    end() {
      if (terminal) return []
      // A finish reason without [DONE] is a finished answer; an end without either is a cut (design 9).
      if (finished.size > 0 && [...finished.values()].every(Boolean)) return [{ done: true }]
      return fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'))
    },
  }
}

/** The mark of the end, whatever stands around it. */
const isDone = (data: string) => data.trimStart().startsWith('[DONE]')

/** A heartbeat in the place of data: nothing, or a comment. */
const isSilence = (data: string) => data[0] === ':' || data.trim() === ''

function toChunk({ service_tier, system_fingerprint, moderation }: JsonObject, choices: ChunkChoice[]): ChatChunk {
  // What these are worth is decided where the answer is written.
  return service_tier || system_fingerprint || moderation
    ? ({ choices, service_tier, system_fingerprint, moderation } as ChatChunk)
    : { choices }
}

function tryParse(data: string): JsonObject | null {
  const text = data[0] === '{' ? data : data.trimStart()
  if (text[0] !== '{') return null
  try {
    return asObject(parseJson(text))
  } catch {
    return null
  }
}
