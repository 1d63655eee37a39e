/** What goes wrong while Claude Code and Codex are at work: they finish all the same, or say why not and stop. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { errorMessage } from '../../support/anthropic-answers.ts'
import { until } from '../../support/until.ts'
import type { Script } from '../../support/upstream.ts'
import type { Behaviour } from '../../support/upstream-answers.ts'
import { AGENTS, installAgent } from './install.ts'
import { SPEAKERS, type Speaker } from './speakers.ts'
import { type AgentStage, type Row, startAgentStage } from './stage.ts'
import { expectDone, TASKS } from './tasks.ts'

/** Another behaviour for some requests, counted from 0 on, up to `to`; it is told what would have been said. */
const but =
  (script: Script, from: number, to: number, instead: (said: Behaviour) => Behaviour): Script =>
  (seen) => {
    const said = typeof script === 'function' ? script(seen) : script
    return seen.index >= from && seen.index < to ? instead(said) : said
  }

/** What the second turn begins with: of a thought, or of a call. */
const BEGINNING = /Now|Write|exec_command/

/** Breaks off within its first block. */
function cutShort(said: Behaviour): Behaviour {
  if (said.kind !== 'stream') return said
  const steps = [...said.steps]
  const begun = steps.findIndex((step) => BEGINNING.test(typeof step === 'string' ? step : JSON.stringify(step)))
  return { ...said, steps: steps.slice(0, begun + 1), end: 'reset' }
}

/** How a task goes on that has lost one answer. */
const REST = Array(3).fill('ok streamed')

/** More than is left of the budget; not so much that Claude Code takes its context for full, and stops by itself. */
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

    /** The log is written a little later than the answers are. */
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
        // Claude Code asks for the whole of it, once.
        const again = agent === 'claude' ? 'ok whole' : 'ok streamed'
        expect(statusesOf(work.rows)).toEqual(['ok streamed', 'cut streamed', again, 'ok streamed', 'ok streamed'])
        expect(work.rows.every(({ cost_nano_usd: cost }) => cost > 0)).toBe(true)
      },
    )

    test('an upstream that stays overloaded is asked again, later', async () => {
      const folder = stage.renew()
      const { model, play } = anthropic
      stage.upstream.script(but(play(toTurns(folder)), 1, 4, () => errorMessage(529, 'overloaded_error', 'Overloaded')))
      const work = await stage.work(agent, ['--model', model], words)
      expectDone(folder, work)
      expect(statusesOf(work.rows)).toEqual(['ok streamed', 'failed streamed', ...REST])
      expect(work.rows[1]).toMatchObject({ error_code: 'server_is_overloaded', attempts: 3, cost_nano_usd: 0 })
    })

    test('a server that is killed and started again is asked again', async () => {
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

    test('a budget that is spent in the middle ends it at once, with a word', async () => {
      const folder = stage.renew()
      const before = stage.refusals()
      const { model, play } = openai
      stage.upstream.script(but(play(toTurns(folder)), 1, 2, makeDear))
      const work = await stage.work(agent, ['--model', model, '--budget', '0.2/day'], words)
      expect(work).toMatchObject({ code: 1, key: 'revoked' })
      // Codex has a sentence of its own.
      const sentence = agent === 'claude' ? 'The budget of key' : 'Quota exceeded.'
      expect(work.stdout + work.stderr).toContain(sentence)
      expect(statusesOf(work.rows)).toEqual(['ok streamed', 'ok streamed'])
      await refused(before + 1)
    })

    test('a key that is revoked in the middle ends it, soon and with a word', async () => {
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
      // Codex tries five times again, whatever it is told.
      await refused(before + (agent === 'claude' ? 1 : 6))
    })
  })
}
