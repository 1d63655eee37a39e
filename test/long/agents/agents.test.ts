/**
 * Claude Code and Codex through `tollgate launch` and the built binary: tasks with tool calls on upstreams of every
 * format, and failures midway.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { AGENTS, installAgent } from './install.ts'
import { SPEAKERS, USED } from './speakers.ts'
import { type AgentStage, DEMO, startAgentStage } from './stage.ts'
import { expectDone, TASKS } from './tasks.ts'

const DEMO_SAYS = "This is Tollgate's demo model."

const COST =
  (USED.prompt_tokens - USED.cached_tokens) * 1_000 + USED.cached_tokens * 100 + USED.completion_tokens * 2_000

for (const agent of AGENTS) {
  const bin = await installAgent(agent)
  const { endpoint, words, hello, toTurns, toScript } = TASKS[agent]

  describe.skipIf(bin === null)(agent, () => {
    let stage: AgentStage
    beforeAll(async () => {
      stage = await startAgentStage(bin ?? '')
    })
    afterAll(() => stage.stop())

    const rowOf = (model: string) => ({ model, endpoint, passthrough: false, stream: 1, status: 'ok', attempts: 1 })

    test('the built-in model answers in words, and calls no tool unless it must', async () => {
      stage.renew()
      const { code, stdout, rows, key } = await stage.work(agent, ['--model', DEMO], hello)
      expect({ code, key }).toEqual({ code: 0, key: 'revoked' })
      expect(stdout).toContain(DEMO_SAYS)
      expect(rows).toMatchObject([{ ...rowOf(DEMO), estimated: 0 }])
    })

    test('the commands that the dashboard shows start it', async () => {
      stage.renew()
      const { code, stdout, rows } = await stage.shell((access) => toScript({ ...access, model: DEMO }), hello)
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(DEMO_SAYS) })
      expect(rows).toMatchObject([{ ...rowOf(DEMO), key: expect.stringContaining('by hand') }])
    })

    test.each(SPEAKERS.map((speaker) => [speaker.model, speaker] as const))(
      'does its task with %s, each call on record, its thoughts brought back',
      async (model, { native, play, stateIn, toState }) => {
        const folder = stage.renew()
        const turns = toTurns(folder)
        stage.upstream.script(play(turns))
        const work = await stage.work(agent, ['--model', model, '--budget', '50/day'], words)
        expectDone(folder, work)
        const passthrough = native === endpoint
        const row = { ...rowOf(model), ...USED, passthrough, estimated: 0, cost_nano_usd: COST }
        expect(work.rows).toMatchObject(turns.map(() => row))
        const last = stage.upstream.requests.at(-1)
        if (!last) throw new Error('nothing was asked')
        expect(last.body).toContain('The word is heron.')
        // Codex sets no cap, and its budget adds none.
        if (agent === 'codex' && passthrough) expect(last.body).not.toContain('max_output_tokens')
        expect(stateIn(last)).toEqual(turns.slice(0, -1).flatMap(toState))
      },
    )
  })
}
