/** A chart: what it answers as its title, the picture or a table of the same, what each colour is, and both as files. */
import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'
import { type CsvCell, toCsv } from '../../domain/text.ts'
import { query, setQuery } from '../address/address.ts'
import { Button } from '../ui/button.tsx'
import { type PlotProps, pointed } from './draw.ts'
import { MarkLines } from './mark-lines.tsx'
import { marksOf } from './marks.ts'
import { Plot } from './plot.tsx'
import { save } from './save.ts'

interface ChartProps extends Omit<PlotProps, 'describe'> {
  /** In the address, and in the name of its file. */
  name: string
  title: string
  /** The time that it is of, as a part of a sentence: `in 7 days`. */
  spanText: string
  /** What the values beside the colours are of, where no column is pointed to. */
  wholeText: string
  /** Of a series in all; null for what does not add up. */
  total(series: number): string | null
  /** What columns are told apart by in the table: `Day (UTC)`. */
  columnHeading: string
  /** What stands in the file for a column. */
  columnIso(at: number): string
  /** What stands in the file, exactly: its unit is in the heading. */
  toCell(value: number): CsvCell
  unit: string
  /** Where what a series counts is looked at one by one; null for nowhere. */
  hrefOf?(series: number): string | null
  /** Beside its other buttons. */
  tools?: ComponentChildren
}

export function Chart(props: ChartProps) {
  const { name, title, series, columnText, valueText, wholeText, total, label, marks, hrefOf, tools } = props
  const room = useRef<HTMLElement>(null)
  const isTable = query.value.get('table') === name
  const at = pointed.value
  const isPointed = at !== null && at < (series[0]?.values.length ?? 0)
  const textAt = (values: readonly (number | null)[], column: number) => {
    const value = values[column] ?? null
    return value === null ? '–' : valueText(value)
  }
  const describe = (column: number) =>
    `${columnText(column)}: ${series.map((one) => `${one.name} ${textAt(one.values, column)}`).join(', ')}`
  return (
    <section ref={room} class="panel chart" aria-label={label}>
      <header class="chart-head">
        <h2>{title}</h2>
        <p class="chart-tools">
          {tools}
          <Button kind="quiet" onClick={() => setQuery({ table: isTable ? null : name })}>
            {isTable ? 'Chart' : 'Table'}
            <span class="unseen">: {label}</span>
          </Button>
          <Button kind="quiet" onClick={() => saveTable(props)}>
            CSV<span class="unseen">: {label}</span>
          </Button>
          {!isTable && (
            <Button kind="quiet" onClick={() => savePicture(props, room.current)}>
              PNG<span class="unseen">: {label}</span>
            </Button>
          )}
        </p>
      </header>
      {isTable ? <Figures {...props} textAt={textAt} /> : <Plot {...props} describe={describe} />}
      {!isTable && (
        <>
          <p class="legend-of">{isPointed ? columnText(at) : wholeText}</p>
          <ul class="legend">
            {series.map((one, index) => (
              <li key={one.name}>
                <span class={`swatch ${one.colour.slice(2)}`} />
                <span class="legend-name" title={one.name}>
                  <Behind href={hrefOf?.(index) ?? null}>{one.name}</Behind>
                </span>
                <span class="figure-text">{isPointed ? textAt(one.values, at) : total(index)}</span>
              </li>
            ))}
          </ul>
          {isPointed && <MarkLines of={marksOf(marks, at)} />}
        </>
      )}
    </section>
  )
}

const Behind = ({ href, children }: { href: string | null; children: ComponentChildren }) =>
  href === null ? <span>{children}</span> : <a href={href}>{children}</a>

const countOf = ({ series }: Pick<ChartProps, 'series'>) => series[0]?.values.length ?? 0

const Figures = ({
  textAt,
  ...props
}: ChartProps & { textAt(values: readonly (number | null)[], at: number): string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
  <section class="chart-table" tabIndex={0} aria-label={`${props.label}, as a table`}>
    <table>
      <thead>
        <tr>
          <th scope="col">{props.columnHeading}</th>
          {props.series.map(({ name }) => (
            <th key={name} scope="col" class="figure">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Array.from({ length: countOf(props) }, (_, at) => (
          <tr key={at}>
            <th scope="row">{props.columnText(at)}</th>
            {props.series.map(({ name, values }) => (
              <td key={name} class="figure">
                {textAt(values, at)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </section>
)

function saveTable({ name, series, columnHeading, columnIso, toCell, unit }: ChartProps): void {
  const rows = Array.from({ length: countOf({ series }) }, (_, at) => [
    columnIso(at),
    ...series.map(({ values }) => {
      const value = values[at] ?? null
      return value === null ? null : toCell(value)
    }),
  ])
  const text = toCsv([columnHeading, ...series.map((one) => `${one.name} (${unit})`)], rows)
  save(`tollgate-${name}.csv`, new Blob([text], { type: 'text/csv' }))
}

async function savePicture({ name, title, label, spanText, series, total }: ChartProps, room: HTMLElement | null) {
  const plot = room?.querySelector('canvas')
  if (!plot) return
  const { toPng } = await import('./png.ts')
  const legend = series.map((one, at) => ({ name: one.name, colour: one.colour, text: total(at) ?? '' }))
  const picture = await toPng({ title, note: `${label}, ${spanText} (UTC)`, legend, plot })
  if (picture) save(`tollgate-${name}.png`, picture)
}
