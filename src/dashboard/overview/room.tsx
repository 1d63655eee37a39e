/** Room for the overview while it is still being read: as much as its figures and its charts take. */
import { FigureRoom } from '../ui/unread.tsx'

const FIGURES = ['cost', 'requests', 'failed', 'first token', 'upstreams']

export const OverviewRoom = () => (
  <div class="overview">
    <div class="filters">
      <span class="room-of-field" />
    </div>
    <div class="headline overview-figures">
      {FIGURES.map((each) => (
        <FigureRoom key={each} />
      ))}
    </div>
    <div class="overview-parts">
      <div class="overview-column">
        <div class="panel room-of-chart" />
        <div class="halves">
          <div class="panel room-of-chart" />
          <div class="panel room-of-chart" />
        </div>
      </div>
      <div class="overview-column">
        <div class="panel room-of-chart" />
      </div>
    </div>
  </div>
)
