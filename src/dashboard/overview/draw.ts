/** Draws a chart with uPlot; all charts of the page share the crosshair. */
import { effect, signal } from '@preact/signals'
import type uPlot from 'uplot'
import { colorOf } from '../shell/theme.ts'
import { type Mark, toStack } from './figures.ts'

export interface PlotSeries {
  name: string
  color: `--${string}`
  values: readonly (number | null)[]
}

export interface PlotProps {
  label: string
  kind: 'stack' | 'lines'
  series: readonly PlotSeries[]
  height: number
  /** Label below a column. */
  columnText(at: number): string
  /** Axis label. */
  valueText(value: number): string
  /** A column's values for screen readers. */
  describe(at: number): string
  marks: readonly Mark[]
  /** Called when columns were selected. */
  onSelect(from: number, to: number): void
}

/** The column under the crosshair of all charts. */
export const pointed = signal<number | null>(null)
/** Start of a keyboard selection. */
export const anchored = signal<number | null>(null)

const LABEL_WIDTH = 64
/** Maximum width of a character in `FONT`, including the gap. */
const CHARACTER_WIDTH = 8
/** px; a shorter drag is a click. */
const MIN_DRAG = 6
const FONT = '12px system-ui, sans-serif'

export interface Drawn {
  redraw(): void
  end(): void
}

/** @param toMarks called on each draw */
export function draw(UPlot: typeof uPlot, room: HTMLElement, props: PlotProps, toMarks: () => readonly Mark[]): Drawn {
  const plot = new UPlot(toOptions(UPlot, props, room.clientWidth, toMarks), toData(props), room)
  const watching = new ResizeObserver(() => plot.setSize({ width: room.clientWidth, height: props.height }))
  watching.observe(room)
  const stop = effect(() => {
    const { value } = pointed
    plot.setCursor({ left: value === null ? -10 : plot.valToPos(value, 'x'), top: value === null ? -10 : 10 }, false)
    mark(plot, anchored.value, value)
  })
  return {
    redraw: () => plot.redraw(false),
    end() {
      stop()
      watching.disconnect()
      plot.destroy()
    },
  }
}

/** Highlights the selected columns. */
function mark(plot: uPlot, from: number | null, to: number | null): void {
  if (from === null || to === null) {
    if (plot.cursor.event == null) plot.setSelect({ ...plot.select, left: 0, width: 0 }, false)
    return
  }
  const left = plot.valToPos(Math.min(from, to) - 0.5, 'x')
  plot.setSelect(
    {
      left,
      width: plot.valToPos(Math.max(from, to) + 0.5, 'x') - left,
      top: 0,
      height: plot.bbox.height / devicePixelRatio,
    },
    false,
  )
}

/** px */
const [MARK_WIDTH, MARK_TIP] = [1, 4]

/** Dashed vertical lines with a tip, so that columns stay visible. */
function drawMarks(plot: uPlot, marks: readonly Mark[], color: string): void {
  const { ctx, bbox } = plot
  const tip = MARK_TIP * devicePixelRatio
  ctx.save()
  Object.assign(ctx, { strokeStyle: color, fillStyle: color, lineWidth: MARK_WIDTH * devicePixelRatio })
  for (const { at } of marks) {
    const x = plot.valToPos(at, 'x', true)
    ctx.setLineDash([tip / 2, tip / 2])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    ctx.beginPath()
    ctx.moveTo(x - tip, bbox.top)
    ctx.lineTo(x + tip, bbox.top)
    ctx.lineTo(x, bbox.top + 1.5 * tip)
    ctx.fill()
  }
  ctx.restore()
}

/** Stacks are drawn highest first, so that lower series cover them. */
function toData({ kind, series }: PlotProps): uPlot.AlignedData {
  const values = kind === 'stack' ? toStack(series).reverse() : series.map((one) => [...one.values])
  return [(values[0] ?? []).map((_, at) => at), ...values]
}

function toOptions(
  UPlot: typeof uPlot,
  props: PlotProps,
  width: number,
  toMarks: () => readonly Mark[],
): uPlot.Options {
  const { kind, series, height, columnText, valueText } = props
  const count = series[0]?.values.length ?? 0
  // Without data, the maximum is arbitrary, so labels would be noise.
  const isZero = series.every(({ values }) => values.every((value) => !value))
  const [dim, line] = [colorOf('--dim'), colorOf('--line')]
  const axis = { stroke: dim, font: FONT, ticks: { show: false } }
  const toSeries = ({ name, color }: PlotSeries): uPlot.Series => {
    const stroke = colorOf(color)
    if (kind === 'lines') return { label: name, stroke, width: 2, points: { show: true, size: 5, fill: stroke } }
    const paths = UPlot.paths.bars?.({ size: [0.76, 48] })
    return { label: name, stroke, fill: stroke, width: 0, points: { show: false }, ...(paths && { paths }) }
  }
  const toTicks = (plot: uPlot) => {
    const step = Math.max(1, Math.ceil((count * LABEL_WIDTH) / Math.max(LABEL_WIDTH, plot.width - LABEL_WIDTH)))
    return Array.from({ length: Math.ceil(count / step) }, (_, at) => count - 1 - at * step).reverse()
  }
  return {
    ...{ width, height, legend: { show: false }, padding: [8, 20, 0, 0] },
    cursor: {
      drag: { x: true, y: false, setScale: false, dist: MIN_DRAG },
      ...{ y: false, points: { show: kind === 'lines' } },
    },
    scales: {
      x: { time: false, range: () => [-0.5, count - 0.5] },
      y: { range: (_, __, most) => [0, (most || 1) * 1.08] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 26, splits: toTicks, values: (_, ticks) => ticks.map(columnText) },
      {
        ...axis,
        ...{ grid: { stroke: line, width: 1 }, space: 40 },
        size: (_, texts) =>
          Math.max(LABEL_WIDTH, ...(texts ?? []).map((text) => String(text).length * CHARACTER_WIDTH)),
        values: (_, ticks) => ticks.map((tick) => (isZero && tick !== 0 ? '' : valueText(tick))),
      },
    ],
    series: [{}, ...(kind === 'stack' ? series.toReversed() : series).map(toSeries)],
    hooks: {
      draw: [(plot) => drawMarks(plot, toMarks(), dim)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          if (width === 0) return
          plot.setSelect({ ...plot.select, left: 0, width: 0 }, false)
          props.onSelect(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'))
        },
      ],
      setCursor: [
        (plot) => {
          if (plot.cursor.event != null) pointed.value = plot.cursor.idx ?? null
        },
      ],
    },
  }
}
