/** A long list is drawn a part at a time: a button below it draws the next. */
import { Button } from './button.tsx'

/** Rows that a list begins with, and goes on by. */
export const STEP = 100

interface MoreProps {
  /** Rows that there are, and how many of them are drawn at most. */
  rows: number
  most: number
  setMost(most: number): void
}

export const More = ({ rows, most, setMost }: MoreProps) =>
  rows > most ? (
    <p>
      <Button onClick={() => setMost(most + STEP)}>Show {Math.min(STEP, rows - most)} more</Button>
    </p>
  ) : null
