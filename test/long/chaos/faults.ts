/**
 * Faults that chaos upstreams inject into each call, drawn from the seed, request, upstream, and call number. Every
 * choice carries its call's mark.
 */
import type { Behaviour } from '../../support/upstream-answers.ts'
import { toBehaviour, toPieces } from './behaviours.ts'
import type { Tokens } from './catalog.ts'
import { drawFor, pick, type RequestPlan, type UpstreamName } from './plan.ts'

/** Percent of calls. Other calls succeed. */
const FAULTS = {
  well: 66,
  // Complete responses anyway:
  bytes: 3,
  no_usage: 3,
  wrong_n: 2,
  lies: 1,
  bare: 1,
  // No response:
  reset: 2.5,
  silent: 1.2,
  s400: 1,
  s401: 0.7,
  s404: 0.7,
  s429: 1.5,
  s500: 2.5,
  s503: 1.5,
  html: 1.2,
  garbage: 1.2,
  empty: 1.2,
  hang_role: 0.6,
  frame_500: 0.7,
  frame_503: 0.7,
  /** Closes its listener for a while, and all connections. */
  refuse: 0.15,
  // Partial responses:
  cut: 1.2,
  cut_reset: 1.2,
  cut_eof: 0.8,
  cut_hang: 0.8,
  cut_500: 0.7,
  cut_503: 0.7,
  cut_garbage: 0.5,
} as const
/** `quiet` before the headers, `lull` between two words: long enough for a keep-alive. */
const QUIET_FAULTS = { ...FAULTS, quiet: 2, lull: 2 } as const
export type Fault = keyof typeof QUIET_FAULTS

/** Words, or the arguments of a tool call. */
export interface Said {
  tool: boolean
  text: string
  /** Whether it matches the request's schema. */
  fits: boolean
}

export interface CallPlan {
  fault: Fault
  behaviour: Behaviour
  /** A complete response, an interrupted part, or nothing usable. */
  yields: 'answer' | 'part' | 'nothing'
  /** Reported usage, or null. */
  usage: Tokens | null
  said: readonly Said[]
}

export interface Asked {
  stream: boolean
  n: number
  /** The gateway enforces JSON here, so the model may write any text. */
  enforced: boolean
  credential: string
}

const PARTS = new Set<Fault>(['cut', 'cut_reset', 'cut_eof', 'cut_hang', 'cut_500', 'cut_503', 'cut_garbage'])
const ANSWERS = new Set<Fault>(['well', 'bytes', 'no_usage', 'wrong_n', 'lies', 'bare', 'quiet', 'lull'])

/** Draws the fault of one call. */
export function toCall(seed: number, plan: RequestPlan, upstream: UpstreamName, call: number, asked: Asked): CallPlan {
  const random = drawFor(seed, 'call', plan.number, upstream, call)
  const drawn = pick<Fault>(random, upstream === 'gamma' ? QUIET_FAULTS : { ...FAULTS, quiet: 0, lull: 0 })
  // Slow readers only test something if there is a response.
  const fault = plan.manner.kind === 'slow' ? 'well' : drawn
  const count = fault === 'wrong_n' ? (asked.n > 1 && random() < 0.5 ? asked.n - 1 : asked.n + 1) : asked.n
  const said = Array.from({ length: count }, (_, index) =>
    fault === 'bare' ? BARE : toSaid(random, plan, `m${plan.number}.${upstream}.${call}.${index}`, asked),
  )
  const prompt = 20 + Math.floor(random() * 200)
  const written = said.reduce((sum, { text }) => sum + toPieces(text).length, 0)
  const used: Tokens = {
    prompt,
    cached: Math.floor(random() * 20),
    completion: fault === 'lies' ? 5_000 : Math.max(1, written),
  }
  const usage = fault === 'no_usage' || fault === 'bare' ? null : used
  const behaviour = toBehaviour(random, fault, asked, said, usage)
  const yields = ANSWERS.has(fault) ? 'answer' : PARTS.has(fault) && asked.stream ? 'part' : 'nothing'
  return { fault, behaviour, yields, usage: yields === 'answer' ? usage : null, said }
}

const BARE: Said = { tool: false, text: '', fits: false }

function toSaid(random: () => number, plan: RequestPlan, mark: string, { enforced }: Asked): Said {
  const { format, manner } = plan
  const count = 2 + Math.floor(random() * 8)
  if (manner.kind === 'slow') return { tool: false, text: `${mark} ${SLOW_TEXT}`, fits: true }
  if (format === 'text') {
    return { tool: false, text: `${mark} ${Array.from({ length: count }, (_, i) => `w${i} `).join('')}`, fits: true }
  }
  const json = JSON.stringify({ mark, count })
  if (format === 'tools') return { tool: true, text: json, fits: true }
  const how = enforced ? pick(random, { fits: 55, fenced: 15, wrong: 20, prose: 10 }) : 'fits'
  if (how === 'fenced') return { tool: false, text: `Here it is:\n\`\`\`json\n${json}\n\`\`\``, fits: true }
  if (how === 'wrong') {
    return { tool: false, text: JSON.stringify({ mark, count: 'many' }), fits: format === 'object' }
  }
  if (how === 'prose') return { tool: false, text: 'I would rather not say.', fits: false }
  return { tool: false, text: json, fits: true }
}

/** More than the sockets in between buffer. */
const SLOW_TEXT = Array.from({ length: 400 }, (_, i) => `${String(i).repeat(5_000).slice(0, 16_000)} `).join('')
