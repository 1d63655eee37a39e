/** Plays a chaos story and lists everything that is wrong, with figures. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { databasePath } from '../../../src/store/sqlite/files.ts'
import { findWrongCharges } from '../../support/charges.ts'
import { judgeAnswers } from './answers.ts'
import { judgeAttempts } from './attempts.ts'
import { judgeCosts } from './costs.ts'
import { toFacts } from './facts.ts'
import { judgeLedger } from './ledger.ts'
import { judgeLimits } from './limits.ts'
import { readRows } from './rows.ts'
import { judgeSecrets } from './secrets.ts'
import { playChaos, type Story, type StoryShape } from './story.ts'

export const CHAOS_SEED = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000)
/** One cause may make hundreds of complaints. */
const MAX_SHOWN = 8

export interface Verdict {
  complaints: string[]
  told: Record<string, Record<string, number>>
}

export async function playAndJudge(shape: StoryShape): Promise<Verdict> {
  console.log(`CHAOS_SEED=${CHAOS_SEED}`)
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-chaos-'))
  try {
    const story = await playChaos(folder, CHAOS_SEED, shape)
    try {
      const { complaints, told } = await judgeStory(story)
      console.log(JSON.stringify(told))
      const more = complaints.length - MAX_SHOWN
      return { complaints: more > 0 ? [...complaints.slice(0, MAX_SHOWN), `and ${more} more`] : complaints, told }
    } finally {
      await story.stop()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export async function judgeStory(story: Story): Promise<Verdict> {
  const facts = toFacts(story)
  const rows = readRows(story.server.data)
  const { held, complaints } = judgeAnswers(facts)
  const ends = story.outcomes.map(({ end, status }) => (end === 'answered' ? String(status) : end))
  return {
    complaints: [
      ...complaints,
      ...judgeLedger(facts, rows, held),
      ...judgeCosts(facts, rows),
      ...(await findWrongCharges(databasePath(story.server.data))).map(
        ({ request }) => `charge of ${request.id} does not come out`,
      ),
      ...judgeLimits(facts, rows),
      ...judgeAttempts(facts, held),
      ...judgeSecrets(facts),
    ],
    told: {
      clients: count(ends),
      standstills: { of_all: story.stills.length },
      errors: count(held.flatMap(({ error }) => (error ? [String(error.code)] : []))),
      rows: count(rows.all.map(({ status }) => status)),
      faults: count(story.upstreams.calls.map(({ plan }) => plan.fault)),
      upstreams: count(story.upstreams.calls.map(({ upstream }) => upstream)),
    },
  }
}

const count = (names: readonly string[]): Record<string, number> =>
  Object.fromEntries([...Map.groupBy(names, (name) => name)].map(([name, { length }]) => [name, length]))
