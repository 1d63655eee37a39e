/** The dashboard and the alert rules in docs/ name only metrics that exist, with labels that they have. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEFINITIONS } from '../../src/telemetry/definitions.ts'

const DOCS = join(import.meta.dir, '../../docs')
const read = (name: string) => readFileSync(join(DOCS, name), 'utf8')

/** Added by Prometheus, or by the variables of a dashboard. */
const SHARED = ['job', 'instance', 'le']
const EACH = new Map(
  DEFINITIONS.map((one) => {
    const own = Array.isArray(one.labels) ? one.labels : Object.keys(one.labels)
    return [one.name, { one, labels: [...SHARED, ...own, ...('owner' in one && one.owner ? [one.owner] : [])] }]
  }),
)

/** A histogram is queried by its buckets. */
const find = (name: string) => {
  const found = EACH.get(name) ?? EACH.get(name.replace(/_(bucket|sum|count)$/, ''))
  return found && (found.one.type === 'histogram') === (found.one.name !== name) ? found : undefined
}

const toQueries = (document: string): string[] =>
  document.endsWith('.json')
    ? (JSON.stringify(JSON.parse(read(document))).match(/"(?:expr|query)":"(?:[^"\\]|\\.)*"/g) ?? []).map((text) =>
        JSON.parse(text.replace(/^"\w+":/, '')),
      )
    : [read(document).replace(/^ +summary:.*$/gm, '')]

const METRIC = /\b((?:tollgate|process)_\w+)(?:\{([^}]*)\})?/g

test.each(['grafana.json', 'alerts.yaml'])('docs/%s', (document) => {
  const used = toQueries(document).flatMap((query) => [...query.matchAll(METRIC)])
  expect(used.length).toBeGreaterThan(10)
  const wrong = used.flatMap(([text, name = '', selector = '']) => {
    const found = find(name)
    const labels = [...selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g)].map(([, label]) => label ?? '')
    return found && labels.every((label) => found.labels.includes(label)) ? [] : [text]
  })
  expect(wrong).toEqual([])
})

test('the dashboard shows every metric but those of single keys and teams that others sum', () => {
  const shown = read('grafana.json')
  const left = ['tollgate_team_requests_total', 'tollgate_team_tokens_total', 'tollgate_backup_failed']
  expect([...EACH.keys()].filter((name) => !shown.includes(name))).toEqual(left)
})

test('every alert has a line in the runbook', () => {
  const alerts = [...read('alerts.yaml').matchAll(/alert: (\w+)/g)].map(([, name]) => `\`${name}\``)
  expect(alerts.filter((name) => !read('monitoring.md').includes(name))).toEqual([])
})

const promtool = Bun.which('promtool')
test.skipIf(promtool === null)(`promtool accepts the alert rules${promtool ? '' : ' (skipped: not installed)'}`, () => {
  const { exitCode, stderr } = Bun.spawnSync([promtool ?? '', 'check', 'rules', join(DOCS, 'alerts.yaml')])
  expect(`${exitCode} ${stderr}`).toBe('0 ')
})
