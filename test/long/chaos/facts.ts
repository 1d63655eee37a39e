/** A story's facts for its judges: by request, by time, by log. */
import { isLocal, type KeyName, modelOf, toSlug, toUpstreamModel, type Version } from './catalog.ts'
import type { Outcome } from './client.ts'
import type { UpstreamName } from './plan.ts'
import type { Story, Stretch } from './story.ts'
import type { SeenCall } from './upstreams.ts'

/** Maximum delay of a change, and of log lines lost before a kill. */
export const GRACE_MS = 500

export interface LogLine {
  atMs: number
  level: string
  msg: string
  upstream?: string
  [field: string]: unknown
}

export interface Facts {
  story: Story
  callsOf(number: number): readonly SeenCall[]
  /** A kill may tear a line, which is skipped. */
  lines: readonly LogLine[]
  isKilled(during: Stretch): boolean
  isStill(during: Stretch): boolean
  versionsIn(during: Stretch): readonly Version[]
  routesOf(outcome: Outcome): ReadonlySet<UpstreamName>
  isClosed(upstreams: Iterable<UpstreamName>, during: Stretch): boolean
  /** Whether the log, or a kill that lost its end, explains a skipped route. */
  isAvoided(outcome: Outcome): boolean
}

export const stretchOf = ({ sentMs, endedMs }: Outcome): Stretch => ({ fromMs: sentMs, toMs: endedMs })
const overlap = (a: Stretch, b: Stretch, slackMs = 0) => a.fromMs <= b.toMs + slackMs && b.fromMs <= a.toMs + slackMs

/** A breaker whose trials fail stays open, and logs it only once. */
const OUT_MS = 60_000
const AVOIDED = new Set(['circuit breaker opened', 'upstream is down'])

export function toFacts(story: Story): Facts {
  const { upstreams, kills, stills, change, wallMs, server } = story
  const calls = Map.groupBy(upstreams.calls, (call) => call.request)
  const lines = server
    .log()
    .split('\n')
    .flatMap((text) => toLine(text, wallMs))

  const versionsIn = (during: Stretch): Version[] => [
    ...(during.fromMs <= change.toMs + GRACE_MS ? (['before'] as const) : []),
    ...(during.toMs >= change.fromMs ? (['after'] as const) : []),
  ]
  const routesOf = (outcome: Outcome) => {
    const models = versionsIn(stretchOf(outcome)).map((version) => modelOf(version, outcome.plan.model))
    return new Set(models.flatMap((model) => model?.routes.map(({ upstream }) => upstream) ?? []))
  }
  return {
    story,
    callsOf: (number) => calls.get(number) ?? [],
    lines,
    isKilled: (during) => kills.some((kill) => overlap(kill, during)),
    isStill: (during) => stills.some((still) => overlap(still, during)),
    versionsIn,
    routesOf,
    isClosed(names, during) {
      const among = new Set(names)
      return upstreams.closures.some((closure) => among.has(closure.upstream) && overlap(closure, during, 50))
    },
    isAvoided(outcome) {
      const during = stretchOf(outcome)
      const routes = routesOf(outcome)
      const model = toUpstreamModel(toSlug(outcome.plan.model))
      const isTold = lines.some(
        (line) =>
          AVOIDED.has(line.msg) &&
          [...routes].some((upstream) => upstream === line.upstream) &&
          (line.model ?? model) === model &&
          line.atMs <= during.toMs &&
          line.atMs >= during.fromMs - OUT_MS,
      )
      return (
        isTold || kills.some(({ fromMs }) => fromMs >= during.fromMs - GRACE_MS && fromMs - GRACE_MS <= during.toMs)
      )
    },
  }
}

function toLine(text: string, wallMs: number): LogLine[] {
  if (!text.startsWith('{')) return []
  try {
    const line = JSON.parse(text) as LogLine & { time: string }
    return [{ ...line, atMs: Date.parse(line.time) - wallMs }]
  } catch {
    return []
  }
}

export function mayAsk(version: Version, key: KeyName | 'wrong' | null, asked: string): boolean {
  const model = modelOf(version, asked)
  const slug = toSlug(asked)
  if (!model || key === null || key === 'wrong') return false
  if (key === 'local') return model.routes.some(({ upstream }) => isLocal(upstream))
  return key !== 'picky' || slug === 'acme/small' || slug.startsWith('acme/w')
}

/** The seed, the request, expected and actual. */
export function complain(story: Story, outcome: Outcome | null, expected: string, came: unknown): string {
  const { plan } = outcome ?? {}
  const sent = plan
    ? `request ${plan.number} (${plan.method} ${plan.path} as ${plan.key}, ${JSON.stringify(plan.manner)}) ${plan.body.slice(0, 700)}`
    : 'the whole run'
  const got = outcome
    ? ` [${outcome.end} ${outcome.why} ${outcome.status} ${outcome.headers.get('x-request-id')} after ${Math.round(outcome.endedMs - outcome.sentMs)} ms]`
    : ''
  const calls = plan ? story.upstreams.calls.filter(({ request }) => request === plan.number).map(toCallWords) : []
  const what = typeof came === 'string' ? came : JSON.stringify(came)
  return `CHAOS_SEED=${story.seed}, ${sent}\n  expected: ${expected}\n  came: ${what.slice(0, 1_500)}${got}\n  upstreams saw: ${calls.join('; ') || 'nothing'}`
}

const toCallWords = ({ upstream, number, plan, dropped, seen }: SeenCall) =>
  `call ${number} at ${upstream}: ${plan.fault}${dropped ? ', dropped' : ''}${seen.abortedAtMs === null ? '' : ', given up'}`
