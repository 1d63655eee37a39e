/** Failures while Claude Code and Codex work: they finish anyway, or stop with the reason. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { errorMessage } from '../../support/anthropic-answers.ts'
import { until } from '../../support/until.ts'
import type { Script } from '../../support/upstream.ts'
import type { Behaviour } from '../../support/upstream-answers.ts'
import { AGENTS, installAgent } from './install.ts'
import { SPEAKERS, type Speaker } from './speakers.ts'
import { type AgentStage, type Row, startAgentStage } from './stage.ts'
import { expectDone, TASKS } from './tasks.ts'

/** Changes some responses, counted from 0, up to `to`. */
const but =
  (script: Script, from: number, to: number, instead: (said: Behaviour) => Behaviour): Script =>
  (seen) => {
    const said = typeof script === 'function' ? script(seen) : script
    return seen.index >= from && seen.index < to ? instead(said) : said
  }

/** Start of the second turn: reasoning, or a call. */
const BEGINNING = /Now|Write|exec_command/

/** Interrupted within its first block. */
function cutShort(said: Behaviour): Behaviour {
  if (said.kind !== 'stream') return said
  const steps = [...said.steps]
  const begun = steps.findIndex((step) => BEGINNING.test(typeof step === 'string' ? step : JSON.stringify(step)))
  return { ...said, steps: steps.slice(0, begun + 1), end: 'reset' }
}

/** The rest of a task that lost one response. */
const REST = Array(3).fill('ok streamed')

/** More than what remains of the budget, but not so much that Claude Code considers its context full and stops. */
const makeDear = (said: Behaviour): Behaviour =>
  JSON.parse(JSON.stringify(said).replaceAll('"completion_tokens":12', '"completion_tokens":100000'))

for (const agent of AGENTS) {
  const bin = await installAgent(agent)
  const { words, toTurns } = TASKS[agent]

  describe.skipIf(bin === null)(agent, () => {
    let stage: AgentStage
    beforeAll(async () => {
      stage = await startAgentStage(bin ?? '')
    })
    afterAll(() => stage.stop())

    /** The log is written after the responses. */
    async function refused(times: number): Promise<void> {
      await until('the refusals to be told', () => stage.refusals() >= times)
      expect(stage.refusals()).toBe(times)
    }
    const statusesOf = (rows: readonly Row[]) =>
      rows.map(({ status, stream }) => `${status} ${stream ? 'streamed' : 'whole'}`)
    const [openai, , anthropic] = SPEAKERS as [Speaker, Speaker, Speaker, Speaker]

    test.each(SPEAKERS.map((speaker) => [speaker.model, speaker] as const))(
      'a stream of %s that breaks off is asked for again, and both are billed',
      async (model, { play }) => {
        const folder = stage.renew()
        stage.upstream.script(but(play(toTurns(folder)), 1, 2, cutShort))
        const work = await stage.work(agent, ['--model', model], words)
        expectDone(folder, work)
        // Claude Code retries once, without a stream.
        const again = agent === 'claude' ? 'ok whole' : 'ok streamed'
        expect(statusesOf(work.rows)).toEqual(['ok streamed', 'cut streamed', again, 'ok streamed', 'ok streamed'])
        expect(work.rows.every(({ cost_nano_usd: cost }) => cost > 0)).toBe(true)
      },
    )

    test('it retries an upstream that stays overloaded, later', async () => {
      const folder = stage.renew()
      const { model, play } = anthropic
      stage.upstream.script(but(play(toTurns(folder)), 1, 4, () => errorMessage(529, 'overloaded_error', 'Overloaded')))
      const work = await stage.work(agent, ['--model', model], words)
      expectDone(folder, work)
      expect(statusesOf(work.rows)).toEqual(['ok streamed', 'failed streamed', ...REST])
      expect(work.rows[1]).toMatchObject({ error_code: 'server_is_overloaded', attempts: 3, cost_nano_usd: 0 })
    })

    test('it retries after a server is killed and restarted', async () => {
      const folder = stage.renew()
      const { model, play } = openai
      const dying = () => {
        void stage.restart()
        return { kind: 'silent' } as const
      }
      stage.upstream.script(but(play(toTurns(folder)), 1, 2, dying))
      const work = await stage.work(agent, ['--model', model], words)
      expectDone(folder, work)
      expect(statusesOf(work.rows)).toEqual(['ok streamed', 'abandoned streamed', ...REST])
    })

    test('a budget that is spent midway stops it at once, with a reason', async () => {
      const folder = stage.renew()
      const before = stage.refusals()
      const { model, play } = openai
      stage.upstream.script(but(play(toTurns(folder)), 1, 2, makeDear))
      const work = await stage.work(agent, ['--model', model, '--budget', '0.2/day'], words)
      expect(work).toMatchObject({ code: 1, key: 'revoked' })
      // Codex has its own message.
      const sentence = agent === 'claude' ? 'Budget exceeded for key' : 'Quota exceeded.'
      expect(work.stdout + work.stderr).toContain(sentence)
      expect(statusesOf(work.rows)).toEqual(['ok streamed', 'ok streamed'])
      await refused(before + 1)
    })

    test('a key that is revoked midway stops it soon, with a reason', async () => {
      const folder = stage.renew()
      const before = stage.refusals()
      const { model, play } = openai
      const revoking = (said: Behaviour): Behaviour =>
        said.kind === 'stream' ? { ...said, after: stage.revoke() } : said
      stage.upstream.script(but(play(toTurns(folder)), 1, 2, revoking))
      const { code, stdout, stderr, rows } = await stage.work(agent, ['--model', model], words)
      expect(code).toBe(1)
      expect(stdout + stderr).toMatch(/401.*key/)
      expect(statusesOf(rows)).toEqual(['ok streamed', 'ok streamed'])
      // Codex retries five times, whatever the error says.
      await refused(before + (agent === 'claude' ? 1 : 6))
    })
  })
}
