/**
 * Whether a request wants the demo model to reason, and how much: OpenAI's `reasoning_effort`, and the `reasoning`
 * and `include_reasoning` that other gateways know. The latter two are in nobody's schema, so that anything may be in
 * them. Pure.
 */
import type { CanonicalRequest } from '../domain/request.ts'

export interface Reasoning {
  /** Thought and counted, but not sent. */
  hidden: boolean
  mostTokens: number
}

/** Reads what a request says about reasoning; null where it wants none. */
export function toReasoning(body: CanonicalRequest): Reasoning | null {
  const extras: CanonicalRequest & { reasoning?: unknown; include_reasoning?: unknown } = body
  const told = isObject(extras.reasoning) ? extras.reasoning : {}
  const effort = told.effort ?? body.reasoning_effort
  if (told.enabled === false || effort === 'none') return null
  const hasBudget = typeof told.max_tokens === 'number' && told.max_tokens > 0
  const wanted = typeof effort === 'string' || told.enabled === true || hasBudget || extras.include_reasoning === true
  if (!wanted) return null
  return {
    hidden: told.exclude === true || extras.include_reasoning === false,
    mostTokens: hasBudget ? Number(told.max_tokens) : Number.POSITIVE_INFINITY,
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
