// Time: plays, pauses, and goes event by event.
import { lastAtMost } from './draw.js';

const SECONDS_OF_A_STEP = 14;  // that a step takes to play, at speed 1
const SECONDS_OF_AN_EVENT = 0.7;  // where motion is not wanted

export class Player {
  constructor(changed) {
    this.changed = changed;  // called with (index, at) of every picture
    this.speed = 1;
    this.playing = false;
    this.still = window.matchMedia('(prefers-reduced-motion: reduce)');
  }

  show(film, rank) {
    const share = this.film ? this.at / this.film.seconds : 0;
    this.film = film;
    this.rank = rank;
    this.seek(Math.min(share, 1) * film.seconds);
  }

  seek(at) {
    this.at = at;
    this.index = lastAtMost(this.rank.eventTimes, at);
    this.changed(this.index, this.at);
  }

  go(index) {
    this.index = Math.min(this.rank.events.length - 1, Math.max(0, index));
    this.at = this.rank.eventTimes[this.index];
    this.changed(this.index, this.at);
  }

  step(by) {
    this.pause();
    this.go(this.index + by);
  }

  end() {
    this.pause();
    this.index = this.rank.events.length - 1;
    this.at = this.film.seconds;
    this.changed(this.index, this.at);
  }

  pause() { this.playing = false; }

  play() {
    if (this.playing) return;
    if (this.at >= this.film.seconds || this.index === this.rank.events.length - 1) this.go(0);
    this.playing = true;
    let before = performance.now();
    const picture = (now) => {
      if (!this.playing) return;
      const passed = (now - before) / 1000;
      if (this.still.matches) {
        if (passed * this.speed >= SECONDS_OF_AN_EVENT) {
          before = now;
          this.go(this.index + 1);
          this.playing = this.index < this.rank.events.length - 1;
        }
      } else {
        before = now;
        const at = this.at + (passed * this.speed * this.film.seconds) / SECONDS_OF_A_STEP;
        this.seek(Math.min(at, this.film.seconds));
        this.playing = at < this.film.seconds;
      }
      if (this.playing) requestAnimationFrame(picture);
      else this.changed(this.index, this.at);
    };
    requestAnimationFrame(picture);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
    this.changed(this.index, this.at);
  }
}
