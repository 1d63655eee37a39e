/** A real OpenTelemetry collector takes what is sent; without `otelcol` on the PATH the test is skipped. */
import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '../support/free-port.ts'
import { startSeveral } from '../support/several-upstreams.ts'
import { until } from '../support/until.ts'

const otelcol = Bun.which('otelcol')

test.skipIf(otelcol === null)(`otelcol takes it${otelcol ? '' : ' (skipped: not installed)'}`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'otelcol-'))
  const port = await findFreePort()
  const config = {
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: { debug: { verbosity: 'detailed' } },
    service: {
      telemetry: { metrics: { level: 'none' } },
      pipelines: Object.fromEntries(
        ['traces', 'metrics'].map((signal) => [signal, { receivers: ['otlp'], exporters: ['debug'] }]),
      ),
    },
  }
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config))
  const output = join(folder, 'output')
  const said = () => readFileSync(output, 'utf8')
  const child = Bun.spawn([otelcol ?? '', '--config', join(folder, 'config.json')], { stderr: Bun.file(output) })
  try {
    await until('the collector', () => said().includes('Everything is ready'))
    const otlp = `http://127.0.0.1:${port}`
    const several = await startSeveral({ config: { otlp, otlpSample: 1, otlpMetricsMs: 60_000 } })
    expect((await several.chat()).status).toBe(200)
    await several.stop()
    await until(
      'what it got',
      () => /Name +: chat one/.test(said()) && said().includes('Name: tollgate_requests_total'),
    )
  } finally {
    child.kill()
    await child.exited
    rmSync(folder, { recursive: true })
  }
})
