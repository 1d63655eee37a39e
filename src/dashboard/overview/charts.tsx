/** The pictures of the overview: what it cost, how long people waited, what failed. */

import { setQuery } from '../address/address.ts'
import { toExactCount, toLatency, toPercent } from '../figures/counts.ts'
import { toMoney } from '../figures/money.ts'
import { toDay, toMoment } from '../figures/times.ts'
import { nowMs } from '../ui/figure.tsx'
import { Chart } from './chart.tsx'
import type { Overview } from './data.ts'
import type { PlotProps, PlotSeries } from './plot.tsx'
import { toPart, toQuery } from './range.ts'

const NANO = 1e9

interface OverviewProps {
  of: Overview
}

/** What all charts have in common: their columns. */
const toShared = ({ range }: Overview) => {
  const { columns, by } = range
  return {
    columnText: (at: number) => {
      const text = toMoment(columns[at] ?? 0, nowMs.value, 'UTC')
      return by === 'hour' ? text.slice(-5) : toDay(columns[at] ?? 0, nowMs.value, 'UTC')
    },
    columnIso: (at: number) => new Date(columns[at] ?? 0).toISOString().slice(0, by === 'hour' ? 16 : 10),
    columnHeading: by === 'hour' ? 'Hour (UTC)' : 'Day (UTC)',
    onSelect: (from: number, to: number) => {
      const part = toPart(range, from, to)
      if (part) setQuery(toQuery(part.sinceMs, part.untilMs), 'push')
    },
  }
}

const COLOURS = ['1', '2', '3', '4', '5', '6', '7', '8'].map((each) => `--series-${each}` as PlotSeries['colour'])

export function CostChart({ of }: OverviewProps) {
  const { costs, now, range } = of
  const [dearest] = costs
  const share = dearest && now.costNanoUsd > 0 ? dearest.total / now.costNanoUsd : 0
  const isMostly = costs.length > 1 && share > 0.4
  return (
    <Chart
      {...toShared(of)}
      name="cost"
      kind="stack"
      height={240}
      label={`Cost by ${range.by} and model`}
      title={`${toMoney(now.costNanoUsd, now.isEstimated)} ${range.text}${isMostly ? `, ${toPercent(share)} of it ${dearest?.name}` : ''}`}
      wholeText={range.text.replace(/^./, (letter) => letter.toUpperCase())}
      series={costs.map(({ name, values }, at) => ({ name, values, colour: COLOURS[at] ?? '--faint' }))}
      total={(at) => toMoney(costs[at]?.total ?? 0, costs[at]?.isEstimated)}
      valueText={(nanoUsd) => toMoney(Math.round(nanoUsd))}
      toCell={(nanoUsd) => nanoUsd / NANO}
      unit="USD"
    />
  )
}

export function LatencyChart({ of }: OverviewProps) {
  const { columns, now, range } = of
  const values = (pick: (column: Overview['columns'][number]) => number | null) => columns.map(pick)
  return (
    <Chart
      {...toShared(of)}
      name="latency"
      kind="lines"
      height={160}
      label={`First token by ${range.by}`}
      title={
        now.firstTokenP50Ms === null
          ? 'No first token was measured'
          : `Half of the first tokens within ${toLatency(now.firstTokenP50Ms)}`
      }
      wholeText="First token"
      series={[
        { name: 'p50', colour: '--series-1', values: values(({ firstTokenP50Ms }) => firstTokenP50Ms) },
        { name: 'p95', colour: '--series-3', values: values(({ firstTokenP95Ms }) => firstTokenP95Ms) },
      ]}
      total={(at) => toLatencyOrNone(at === 0 ? now.firstTokenP50Ms : now.firstTokenP95Ms)}
      valueText={toLatency}
      toCell={(ms) => ms}
      unit="ms"
    />
  )
}

const toLatencyOrNone = (ms: number | null) => (ms === null ? '–' : toLatency(ms))

export function FailedChart({ of }: OverviewProps) {
  const { columns, now, range } = of
  const bad = now.failed + now.cut
  const series: PlotProps['series'] = [
    { name: 'failed', colour: '--bad', values: columns.map((one) => (one.requests === 0 ? null : one.failed)) },
    { name: 'broke off', colour: '--warn', values: columns.map((one) => (one.requests === 0 ? null : one.cut)) },
  ]
  return (
    <Chart
      {...toShared(of)}
      name="errors"
      kind="stack"
      height={160}
      label={`Requests that did not end well, by ${range.by}`}
      title={
        bad === 0
          ? `All ${toExactCount(now.requests)} ended well`
          : `${toExactCount(bad)} of ${toExactCount(now.requests)} did not end well`
      }
      wholeText="Requests"
      series={series}
      total={(at) => toExactCount(at === 0 ? now.failed : now.cut)}
      valueText={(count) => (Number.isInteger(count) ? toExactCount(count) : '')}
      toCell={(count) => count}
      unit="requests"
    />
  )
}
