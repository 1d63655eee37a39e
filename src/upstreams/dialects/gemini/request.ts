/** A request as Gemini takes it. What has no place there is refused (`able.ts`), what only hints is left out. Pure. */

import { isSinceGemini3 } from '../../../domain/gemini-generation.ts'
import { asList } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { WireRequest } from '../../backend.ts'
import { toSigner } from '../signer.ts'
import { findUnable } from './able.ts'
import { toConversation } from './contents.ts'
import { toThinking } from './thinking.ts'
import { toTools } from './tools.ts'
import type { GenerateContent, GenerationConfig } from './wire.ts'

/** Throws an UpstreamError `status` 400 for what Gemini has no place for. */
export function toWireRequest(body: CanonicalRequest, target: Target): WireRequest {
  const unable = findUnable(body, isSinceGemini3(target))
  if (unable) throw unable
  const isVertex = speaksVertex(target.upstream)
  const method = body.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const tier = toTier(body.service_tier)
  return {
    path: `/${toResource(target.upstreamModel)}:${method}`,
    body: JSON.stringify({
      ...toGenerateContent(body, target, isVertex),
      ...(tier && !isVertex ? { serviceTier: tier } : {}),
    } satisfies GenerateContent),
    ...(tier && isVertex ? { headers: toTierHeaders(tier) } : {}),
  }
}

/** Vertex serves the same format below a publisher's address. */
export const speaksVertex = ({ baseUrl }: Pick<Target['upstream'], 'baseUrl'>) =>
  baseUrl?.includes('/publishers/') === true

/** A name alone is that of a model; one with a slash says what it is, such as `tunedModels/x`. */
export function toResource(model: string): string {
  const name = model.includes('/') ? model : `models/${model}`
  return name.split('/').map(encodeURIComponent).join('/')
}

function toGenerateContent(body: CanonicalRequest, target: Target, isVertex: boolean): GenerateContent {
  const more = (name: string) => Reflect.get(body, name) as unknown
  const safety = asList(more('safety_settings'))
  const cached = more('cached_content')
  const generationConfig = toGenerationConfig(body, target)
  return {
    ...toConversation(body, {
      ids: !isVertex,
      signs: isSinceGemini3(target),
      signer: toSigner(target),
    }),
    ...toTools(body, { isSearching: Boolean(body.web_search_options), isVertex }),
    ...(Object.keys(generationConfig).length > 0 ? { generationConfig } : {}),
    ...(safety.length > 0 ? { safetySettings: safety } : {}),
    ...(typeof cached === 'string' && cached !== '' ? { cachedContent: cached } : {}),
  }
}

function toGenerationConfig(body: CanonicalRequest, { features, options }: Target): GenerationConfig {
  const { response_format: format, stop, modalities } = body
  const given = Reflect.get(body, 'top_k') as unknown
  const topK = typeof given === 'number' ? given : undefined
  const config: { [Name in keyof GenerationConfig]: GenerationConfig[Name] | null | undefined } = {
    maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
    ...(options.sampling === false ? {} : { temperature: body.temperature, topP: body.top_p, topK }),
    stopSequences: typeof stop === 'string' ? [stop] : stop,
    seed: toInt32(body.seed),
    // Many models refuse the fields, whatever they hold.
    presencePenalty: body.presence_penalty || undefined,
    frequencyPenalty: body.frequency_penalty || undefined,
    candidateCount: (body.n ?? 1) > 1 ? body.n : undefined,
    responseLogprobs: body.logprobs || undefined,
    logprobs: (body.logprobs && body.top_logprobs) || undefined,
    responseMimeType: format && format.type !== 'text' ? 'application/json' : undefined,
    responseJsonSchema: format?.type === 'json_schema' ? format.json_schema.schema : undefined,
    responseModalities: modalities?.map((one) => one.toUpperCase()),
    thinkingConfig: features.includes('reasoning') ? toThinking(body, options) : undefined,
  }
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined && value !== null))
}

/** There a seed has 32 bits; the same one stays the same. */
const toInt32 = (seed: number | null | undefined) =>
  typeof seed === 'number' ? Number(BigInt.asIntN(32, BigInt(seed))) : undefined

/** What is not said is as the project is set. */
function toTier(tier: CanonicalRequest['service_tier']): string | null {
  if (tier === 'default') return 'standard'
  return tier === 'flex' || tier === 'priority' ? tier : null
}

/** What Vertex has in the place of the field; the usual tier is what it serves by itself. */
const toTierHeaders = (tier: string): Record<string, string> =>
  tier === 'standard' ? {} : { 'x-vertex-ai-llm-request-type': 'shared', 'x-vertex-ai-llm-shared-request-type': tier }
