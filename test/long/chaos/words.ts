/** Checks the words that a client received: each choice has its call's mark, so words of another call are found. */
import type { ChoiceReport } from '../../support/contract-choice.ts'
import type { Held } from './answers.ts'
import { isLocal } from './catalog.ts'
import type { Facts } from './facts.ts'
import type { Said } from './faults.ts'

const MARK = /m(\d+)\.([a-z]+)\.(\d+)\.(\d+)/

/** Null if nothing is wrong. */
export function whyNotOwnWords(facts: Facts, { outcome, report, error }: Held, slug: string): string | null {
  const { plan, headers } = outcome
  const calls = facts.callsOf(plan.number)
  const choices = report?.choices ?? []
  const wanted = calls.some((call) => call.plan.fault === 'wrong_n' || call.plan.fault === 'bare') ? null : plan.n
  if (!error && wanted !== null && choices.length !== wanted) return `${wanted} choices`
  const marks = new Set<string>()
  for (const choice of choices) {
    const words = choice.toolCalls[0]?.type === 'function' ? choice.toolCalls[0].function.arguments : choice.content
    if (words === '' && (error || calls.some((call) => call.plan.fault === 'bare'))) continue
    const [mark = '', number, upstream, call, index] = MARK.exec(words) ?? []
    if (mark === '') {
      // Interrupted within its first word, or unmatched JSON after three calls.
      if (error || (headers.get('x-tollgate-schema') === 'unmet' && plan.format === 'schema')) continue
      return 'every choice has the mark of a call'
    }
    const from = calls.find((each) => each.upstream === upstream && each.number === Number(call))
    const said = from?.plan.said[Number(index)]
    if (Number(number) !== plan.number || !from || !said) return `words of a call of its own, not of ${mark}`
    if (marks.has(mark)) return `${mark} in one choice only`
    marks.add(mark)
    if (!error && from.plan.yields !== 'answer') return `no complete answer of call ${call}, which came to no end`
    const by = headers.get('x-tollgate-upstream')
    if (by !== null && by !== upstream) return `x-tollgate-upstream is ${upstream}, not ${by}`
    if (plan.key === 'local' && !isLocal(from.upstream)) return 'a key of scope local is served by local upstreams only'
    const sentModel = from.seen.json?.model
    if (sentModel !== `${slug.split('/')[1]}-v1`) return `the upstream is asked for its own model, not ${sentModel}`
    const wrong = error ? whyNoBeginning(words, said) : whyNotWhole(choice, words, said, plan.format, headers)
    if (wrong) return wrong
  }
  return null
}

const whyNoBeginning = (words: string, said: Said) =>
  said.text.startsWith(words) ? null : `the beginning of ${JSON.stringify(said.text.slice(0, 300))}`

function whyNotWhole(choice: ChoiceReport, words: string, said: Said, format: string, headers: Headers): string | null {
  const finish = said.tool ? 'tool_calls' : 'stop'
  if (choice.finish !== finish) return `finish_reason ${finish}`
  if (said.tool !== (choice.toolCalls.length === 1)) return said.tool ? 'one tool call' : 'no tool call'
  if (format === 'text' || format === 'tools') {
    return words === said.text ? null : `the words ${JSON.stringify(said.text.slice(0, 300))}`
  }
  const json = /\{.*\}/s.exec(said.text)?.[0] ?? ''
  if (!isSameJson(words, json)) return `the JSON ${json}`
  const isUnmet = headers.get('x-tollgate-schema') === 'unmet'
  if (isUnmet && format !== 'schema') return 'x-tollgate-schema only for a schema that is not strict'
  // A stream begun by a keep-alive has no header for it.
  if (said.fits === isUnmet && headers.has('x-tollgate-upstream')) return 'x-tollgate-schema: unmet where it is unmet'
  return said.fits || format === 'schema' ? null : 'JSON that meets the strict schema'
}

function isSameJson(words: string, json: string): boolean {
  try {
    return Bun.deepEquals(JSON.parse(words), JSON.parse(json))
  } catch {
    return false
  }
}
