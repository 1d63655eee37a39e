/** One model server, from its start to its end, with time controlled by the test. */
import { describe, expect, test } from 'bun:test'
import type { ProcessSpec } from '../../src/domain/model-server.ts'
import { type StartFailure, Supervisor } from '../../src/processes/supervisor.ts'
import { createClock, settle } from './clock.ts'
import { createServer, type FakeServer, toSpec } from './servers.ts'

function supervise(fields: Partial<ProcessSpec> = {}, { isStubborn = false, problem = '' } = {}) {
  const clock = createClock()
  const servers: FakeServer[] = []
  const failures: StartFailure['kind'][] = []
  const phases: string[] = []
  const supervisor = new Supervisor({
    spec: toSpec(fields),
    clock,
    async launch() {
      if (problem !== '') throw new Error(problem)
      const server = createServer(servers.length + 1, { isStubborn })
      servers.push(server)
      return server
    },
    look: async (server) => ({ state: servers.find((one) => one === server)?.look ?? 'loading' }),
    runStopCommand: async () => void phases.push('stop command'),
    onChange: () => void phases.push(supervisor.phase),
    onFailed: ({ kind }) => void failures.push(kind),
  })
  const current = () => servers.at(-1) ?? createServer(0)
  const begin = async (look: FakeServer['look']) => {
    supervisor.start()
    await settle()
    current().look = look
    await clock.pass(1_000)
  }
  return { clock, servers, failures, phases, supervisor, current, begin }
}

describe('a model server', () => {
  test('is ready once it reports that, and ends by TERM', async () => {
    const { supervisor, clock, phases, current, begin } = supervise()
    await begin('loading')
    expect(supervisor.state).toBe('loading')
    current().look = 'ready'
    await clock.pass(1_000)
    expect([supervisor.state, supervisor.loadMs !== null]).toEqual(['ready', true])
    await supervisor.stop()
    await settle()
    expect(current().signals).toEqual(['SIGTERM'])
    expect(phases).toEqual(['loading', 'ready', 'stopping', 'stop command', 'stopped'])
  })

  test('is killed if it has not ended 5 s after TERM', async () => {
    const { supervisor, clock, current, begin } = supervise({}, { isStubborn: true })
    await begin('ready')
    const stopped = supervisor.stop()
    await clock.pass(4_999)
    expect([supervisor.phase, current().signals]).toEqual(['stopping', ['SIGTERM']])
    await clock.pass(1)
    await stopped
    expect(current().signals).toEqual(['SIGTERM', 'SIGKILL'])
    expect(supervisor.phase).toBe('stopped')
  })

  test('that never becomes ready is stopped in time, and reported as slow', async () => {
    const { supervisor, clock, failures, current, begin } = supervise({ startMs: 5_000 })
    await begin('loading')
    await clock.pass(3_999)
    expect(failures).toEqual([])
    await clock.pass(1)
    expect(failures).toEqual(['start'])
    expect(current().signals).toEqual(['SIGTERM'])
    expect(supervisor.failure?.reason).toContain('raise deadlines.start')
    expect(supervisor.state).toBe('failed')
  })

  test('waits twice as long after each failure, and as initially once it has responded', async () => {
    const { supervisor, clock, servers, current, begin } = supervise()
    for (const waitMs of [1_000, 2_000, 4_000]) {
      supervisor.start()
      await settle()
      current().end('exited with 1')
      await settle()
      expect(supervisor.state).toBe('failed')
      await clock.pass(waitMs - 1)
      expect(supervisor.state).toBe('failed')
      await clock.pass(1)
      expect(supervisor.state).toBe('stopped')
    }
    await begin('ready')
    supervisor.proved()
    current().end('was killed by SIGSEGV')
    await clock.pass(1_000)
    expect([supervisor.state, servers.length]).toEqual(['stopped', 4])
  })

  test('can be started at once on request', async () => {
    const { supervisor, current } = supervise()
    supervisor.start()
    await settle()
    current().end('exited with 1')
    await settle()
    supervisor.forgive()
    expect(supervisor.state).toBe('stopped')
  })

  test('with a missing program says what to do', async () => {
    const { supervisor, failures, begin } = supervise({}, { problem: 'there is no program x: install it' })
    await begin('ready')
    expect(failures).toEqual(['missing'])
    expect(supervisor.failure?.reason).toBe('there is no program x: install it')
  })

  test('is not used if another server responds on its port', async () => {
    const { supervisor, failures, current, begin } = supervise()
    await begin('foreign')
    expect(failures).toEqual(['foreign'])
    expect(current().signals).toEqual(['SIGTERM'])
    expect(supervisor.phase).not.toBe('ready')
  })

  test('without an identity must survive for a moment, in which one without a port would end', async () => {
    const first = supervise()
    first.supervisor.start()
    await settle()
    first.current().look = 'unsure'
    await first.clock.pass(400)
    expect(first.supervisor.phase).toBe('loading')
    await first.clock.pass(1_000)
    expect(first.supervisor.phase).toBe('ready')
    const second = supervise()
    second.supervisor.start()
    await settle()
    second.current().look = 'unsure'
    await second.clock.pass(100)
    second.current().end('exited with 1')
    await second.clock.pass(1)
    expect(second.failures).toEqual(['ended'])
  })

  test('that is stopped while it loads is not reported as failed', async () => {
    const { supervisor, clock, failures, begin } = supervise()
    await begin('loading')
    await supervisor.stop()
    await clock.pass(10_000)
    expect([supervisor.state, failures]).toEqual(['stopped', []])
  })
})
