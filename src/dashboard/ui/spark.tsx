/** Small pictures of a few figures in a row: a line in a table, columns in a drawer. Exact figures stand beside them, or in their titles. */

interface SparkProps {
  values: readonly number[]
  /** What it shows, in words: `1,284 requests in 30 days`. */
  label: string
  /** Whether the last is of a time that is not over, such as today: it is drawn fainter, as more of it is to come. */
  isLastUnderWay?: boolean
}

const HEIGHT = 20

/** From zero on, so that lines of several rows compare in shape and not in size. */
export function Sparkline({ values, label, isLastUnderWay = false }: SparkProps) {
  const most = Math.max(1, ...values)
  const width = Math.max(1, values.length - 1)
  const points = values.map((value, index) => `${index},${HEIGHT - (value / most) * (HEIGHT - 2) - 1}`)
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points.slice(0, isLastUnderWay ? -1 : undefined).join(' ')} />
      {isLastUnderWay && <polyline class="under-way" points={points.slice(-2).join(' ')} />}
    </svg>
  )
}

/** A column a value, each with its own title. */
export function Columns({
  values,
  label,
  isLastUnderWay = false,
  titleOf,
}: SparkProps & { titleOf(index: number): string }) {
  const most = Math.max(...values) || 1
  return (
    <svg
      class="columns"
      viewBox={`0 0 ${values.length * 10} 60`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(2, (value / most) * 60)
        return (
          <g key={index} class={isLastUnderWay && index === values.length - 1 ? 'under-way' : undefined}>
            <title>{titleOf(index)}</title>
            <rect class="room" x={index * 10} y={0} width={10} height={60} />
            <rect
              class={value === 0 ? 'nothing' : 'column'}
              x={index * 10 + 1}
              y={60 - height}
              width={8}
              height={height}
            />
          </g>
        )
      })}
    </svg>
  )
}
