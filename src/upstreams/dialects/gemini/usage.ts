/** Reads token usage. Google counts reasoning, and prompts of its own tools, separately from output and prompt. */
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Usage } from '../../../domain/usage.ts'
import { asCount } from '../readings.ts'

/**
 * Reads `usageMetadata`; null without counts, as in Vertex chunks that only have the traffic type.
 * @param webSearches reported elsewhere.
 */
export function toUsage(value: unknown, webSearches = 0): Usage | null {
  const found = asObject(value)
  const read = asCount(found?.promptTokenCount)
  if (!found || read === null) return null
  const ofTools = asCount(found.toolUsePromptTokenCount) ?? 0
  const prompt = read + ofTools
  const written = asCount(found.candidatesTokenCount) ?? 0
  const thoughts = asCount(found.thoughtsTokenCount) ?? 0
  // If reasoning ever becomes part of the output, the total shows it.
  const isInside = thoughts > 0 && thoughts <= written && asCount(found.totalTokenCount) === prompt + written
  const completion = written + (isInside ? 0 : thoughts)
  const cacheRead = Math.min(asCount(found.cachedContentTokenCount) ?? 0, prompt)
  const heard = within(prompt - cacheRead, {
    audio: countOf(found, 'AUDIO', ['promptTokensDetails', 'toolUsePromptTokensDetails'], 'cacheTokensDetails'),
    images: countOf(found, 'IMAGE', ['promptTokensDetails', 'toolUsePromptTokensDetails'], 'cacheTokensDetails'),
  })
  const shown = within(completion - thoughts, {
    audio: countOf(found, 'AUDIO', ['candidatesTokensDetails']),
    images: countOf(found, 'IMAGE', ['candidatesTokensDetails']),
  })
  return {
    prompt,
    cacheRead,
    cacheWrite: 0,
    cacheWrite1h: 0,
    audioPrompt: heard.audio,
    imagePrompt: heard.images,
    toolPrompt: Math.min(ofTools, prompt - cacheRead),
    completion,
    reasoning: Math.min(thoughts, completion),
    audioCompletion: shown.audio,
    imageCompletion: shown.images,
    webSearches,
    computeMs: 0,
  }
}

/** Tokens of one modality in these lists, minus cached ones. The lists may not add up to their totals. */
function countOf(usage: JsonObject, modality: string, lists: string[], without = ''): number {
  const sum = (name: string) =>
    asList(usage[name]).reduce<number>((sum, each) => {
      const item = asObject(each)
      return sum + (asText(item?.modality) === modality ? (asCount(item?.tokenCount) ?? 0) : 0)
    }, 0)
  return Math.max(0, lists.reduce((all, name) => all + sum(name), 0) - sum(without))
}

/** Limits parts to their total, whatever an upstream reports. */
function within(most: number, { audio, images }: Media): Media {
  const heard = Math.min(audio, most)
  return { audio: heard, images: Math.min(images, most - heard) }
}

interface Media {
  audio: number
  images: number
}
